-- scope: system
-- kind: additive
-- The tables that every build of waggle stands on.
-- Applied by the schema package, one statement per transaction; every statement may be repeated without harm.
-- The schema itself is made by the apply, which looks before it creates.

-- Who this installation is. The keys never leave the database: who may not read this row may not speak in the mesh.
create table if not exists waggle.installation (
  id                boolean primary key default true check (id),
  cluster_id        uuid not null,
  mesh_keys         bytea[] not null,
  id_key            bytea not null,
  system_identifier text not null,
  database_oid      bigint not null,
  created_at        timestamptz not null default clock_timestamp()
);

-- The lowest build that may write, per scope. Read first by every writing transaction.
create table if not exists waggle.gate (
  id           boolean primary key default true check (id),
  system_floor integer not null,
  record_floor integer not null
);

insert into waggle.gate (system_floor, record_floor) values (1, 1) on conflict (id) do nothing;

-- Brokers that have started. Live = not left and seen within 30 s by this server's clock.
create table if not exists waggle.broker (
  start_id     uuid primary key,
  name         text not null,
  version      text not null,
  http         text not null,
  mesh         text not null,
  system_needs integer not null,
  system_knows integer not null,
  record_knows integer not null,
  frame_min    smallint not null,
  frame_max    smallint not null,
  draining     boolean not null default false,
  started_at   timestamptz not null default clock_timestamp(),
  seen_at      timestamptz not null default clock_timestamp(),
  left_at      timestamptz
);

-- One row: who leads, and the fencing pair (epoch, start_id). It changes only when leadership does.
create table if not exists waggle.leader (
  id            boolean primary key default true check (id),
  epoch         bigint not null,
  start_id      uuid,
  name          text,
  pid           integer,
  backend_start timestamptz,
  since         timestamptz
);

insert into waggle.leader (epoch) values (0) on conflict (id) do nothing;

-- The leader's heartbeat stamp, apart from its row: jobs hold that row FOR SHARE.
create table if not exists waggle.leader_seen (
  id      boolean primary key default true check (id),
  epoch   bigint not null,
  seen_at timestamptz not null
);

insert into waggle.leader_seen (epoch, seen_at) values (0, clock_timestamp()) on conflict (id) do nothing;

create table if not exists waggle.job (
  name         text primary key,
  enabled      boolean not null default true,
  next_due     timestamptz not null default clock_timestamp(),
  last_start   timestamptz,
  last_success timestamptz,
  last_error   text,
  rows_done    bigint not null default 0
);

create table if not exists waggle.queue (
  id           bigint generated always as identity primary key,
  tenant       uuid not null,
  name         text collate "C" not null,
  namespace    text collate "C" not null default '',
  task         text collate "C" not null default '',
  options      jsonb not null default '{}',
  version      bigint not null default 1,
  write_format smallint not null default 1,
  read_floor   smallint not null default 1,
  created_at   timestamptz not null default clock_timestamp(),
  unique (tenant, name)
);

create index if not exists queue_name on waggle.queue (name);

-- Locked by every append, never updated.
create table if not exists waggle.partition (
  id         bigint generated always as identity primary key,
  queue_id   bigint not null,
  name       text collate "C" not null,
  created_at timestamptz not null default clock_timestamp(),
  unique (queue_id, name)
);

-- The log. A null body was emptied by retention; the ids outlive it for de-duplication and late acks. size is that of
-- the records before compression: answers are cut by it.
create table if not exists waggle.segment (
  partition_id bigint not null,
  base_offset  bigint not null,
  created_at   timestamptz not null,
  count        integer not null,
  size         integer not null default 0,
  format       smallint not null,
  ids          bytea not null,
  body         bytea,
  primary key (partition_id, base_offset)
);

alter table waggle.segment alter column ids set storage external, alter column body set storage external;

create index if not exists segment_created_at on waggle.segment (created_at) include (partition_id);

-- The lowest offset of a partition that may still have a body; rows exist only where retention has been.
create table if not exists waggle.log_start (
  partition_id bigint primary key,
  live_offset  bigint not null
);

-- registered_at is null for a group that only ever popped single partitions.
-- start_mode: 0 all, 1 new, 2 from start_at.
create table if not exists waggle.consumer_group (
  id            bigint generated always as identity primary key,
  queue_id      bigint not null,
  name          text collate "C" not null,
  registered_at timestamptz,
  start_mode    smallint not null default 0,
  start_at      timestamptz,
  conflation    boolean not null default false,
  generation    bigint not null default 0,
  created_at    timestamptz not null default clock_timestamp(),
  unique (queue_id, name)
);

-- committed is the last consumed offset, batch_end the last one handed out under the lease.
-- retry is the budget charged by failed acks; attempt counts deliveries of what lies up to attempt_offset.
create table if not exists waggle.cursor (
  id               bigint generated always as identity primary key,
  partition_id     bigint not null,
  group_id         bigint not null,
  committed        bigint not null,
  batch_end        bigint,
  lease            uuid,
  lease_expires_at timestamptz,
  attempt_offset   bigint not null default -1,
  attempt          integer not null default 0,
  retry            integer not null default 0,
  unique (partition_id, group_id)
) with (fillfactor = 50, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 500,
        autovacuum_vacuum_cost_delay = 0, vacuum_truncate = off);

-- Leases that cover more than one cursor; a lease of one cursor carries the cursor's id in its own.
create table if not exists waggle.lease (
  id         uuid primary key,
  cursor_ids bigint[] not null,
  expires_at timestamptz not null
);

create table if not exists waggle.dead_letter (
  id             bigint generated always as identity primary key,
  queue_id       bigint not null,
  partition_id   bigint not null,
  group_name     text collate "C" not null,
  record_offset  bigint not null,
  message_id     uuid not null,
  transaction_id text not null,
  producer_sub   text,
  payload        bytea not null,
  error          bytea not null,
  retry_count    integer not null,
  failed_at      timestamptz not null default clock_timestamp()
);

create index if not exists dead_letter_queue on waggle.dead_letter (queue_id, failed_at desc, id desc);

-- Partitions whose queue was deleted; the leader removes their segments.
create table if not exists waggle.purge (
  partition_id bigint primary key,
  queued_at    timestamptz not null default clock_timestamp()
);
