-- scope: system
-- kind: additive
-- Stream queries and their state. Operators, windows and reducers run in the client; the database keeps what they remember.
-- Applied by the schema package, one statement per transaction; every statement may be repeated without harm.

create table if not exists waggle.stream_query (
  id           uuid primary key,
  tenant       uuid not null,
  name         text collate "C" not null,
  source_queue text collate "C" not null,
  sink_queue   text collate "C",
  config_hash  text collate "C" not null,
  created_at   timestamptz not null default clock_timestamp(),
  updated_at   timestamptz not null default clock_timestamp(),
  unique (tenant, name)
);

-- Keys and values are what the client sent, byte for byte. window_end is the value's windowEnd where it is a number.
create table if not exists waggle.stream_state (
  query_id     uuid not null,
  partition_id bigint not null,
  key          bytea not null,
  value        bytea not null,
  window_end   double precision,
  updated_at   timestamptz not null default clock_timestamp(),
  primary key (query_id, partition_id, key)
);
