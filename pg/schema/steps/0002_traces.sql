-- scope: system
-- kind: additive
-- What clients wrote about the way of a message, and the way from a message to its dead letters. Traces outlive queue and
-- partition, so they carry their names.
-- Applied by the schema package, one statement per transaction; every statement may be repeated without harm.

-- transaction_hash stands for transaction_id in the index: ids may be longer than an index entry.
create table if not exists waggle.trace (
  id               uuid primary key,
  tenant           uuid not null,
  partition_id     bigint not null,
  queue_name       text collate "C" not null,
  partition_name   text collate "C" not null,
  transaction_hash bytea not null,
  transaction_id   text collate "C" not null,
  group_name       text collate "C" not null,
  event_type       text collate "C" not null,
  data             bytea not null,
  names            text[] collate "C" not null default '{}',
  created_at       timestamptz not null default clock_timestamp()
);

create index if not exists trace_message on waggle.trace (partition_id, transaction_hash, created_at);

create index if not exists trace_created_at on waggle.trace (created_at);

-- One row a name of a trace, with what tells messages apart: counting them needs no look at the traces.
create table if not exists waggle.trace_name (
  tenant           uuid not null,
  name             text collate "C" not null,
  created_at       timestamptz not null,
  trace_id         uuid not null,
  partition_id     bigint not null,
  transaction_hash bytea not null,
  primary key (tenant, name, created_at, trace_id)
);

-- Which messages are dead letters: the message routes ask.
create index if not exists dead_letter_message on waggle.dead_letter (partition_id, record_offset);
