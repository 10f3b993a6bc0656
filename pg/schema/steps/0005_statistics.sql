-- scope: system
-- kind: additive
-- Counters that follow what changes, so that nobody has to count what is stored.
-- Applied by the schema package, one statement per transaction; every statement may be repeated without harm.

-- One row: every segment stamped before appended is counted, or its partition has yet to be walked by; the walk over
-- all partitions stands at walked and has come around at rounds times.
create table if not exists waggle.statistics_pass (
  id       boolean primary key default true check (id),
  appended timestamptz,
  walked   bigint not null default 0,
  rounds   bigint not null default 0,
  pass_at  timestamptz
);

insert into waggle.statistics_pass (id) values (true) on conflict (id) do nothing;

-- What is retained of a partition and how far its groups are. Segments from offset next on are not counted yet. start is
-- the log_start that the counts take into account; what retention took since counted_at is under gone until the next
-- count, so that the sums of the queue see it too.
create table if not exists waggle.partition_stat (
  partition_id  bigint primary key,
  queue_id      bigint not null,
  next          bigint not null default 0,
  start         bigint not null default 0,
  segments      bigint not null default 0,
  messages      bigint not null default 0,
  bytes         bigint not null default 0,
  gone_segments bigint not null default 0,
  gone_messages bigint not null default 0,
  gone_bytes    bigint not null default 0,
  pending       bigint not null default 0,
  processing    bigint not null default 0,
  consumed      bigint not null default 0,
  newest        timestamptz,
  waiting_since timestamptz,
  counted_at    timestamptz
) with (fillfactor = 70);

-- Sums of partition_stat.
create table if not exists waggle.queue_stat (
  queue_id   bigint primary key,
  partitions bigint not null default 0,
  segments   bigint not null default 0,
  messages   bigint not null default 0,
  bytes      bigint not null default 0,
  pending    bigint not null default 0,
  processing bigint not null default 0,
  consumed   bigint not null default 0
) with (fillfactor = 70);

-- Partitions whose cursors moved or whose log was shortened: a queue of its own, so that nobody waits for anybody.
create table if not exists waggle.touched (
  id           bigint generated always as identity primary key,
  partition_id bigint not null
) with (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 500, autovacuum_vacuum_cost_delay = 0);
