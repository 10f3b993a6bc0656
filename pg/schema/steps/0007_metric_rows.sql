-- scope: system
-- kind: additive
-- What brokers did in each minute, and sums of that by the hour, so that whole days are cheap to read.
-- Applied by the schema package, one statement per transaction; every statement may be repeated without harm.

-- minutes is what a row covers: 1, 60 for a sum, or 0 for the one row of all that was ever done, which no queue has. lag is how old messages were when they were popped.
create table if not exists waggle.queue_metric (
  minutes            smallint not null,
  bucket             timestamptz not null,
  queue_id           bigint not null,
  broker             text collate "C" not null,
  push_requests      bigint not null default 0,
  push_messages      bigint not null default 0,
  pop_requests       bigint not null default 0,
  pop_messages       bigint not null default 0,
  pop_empty          bigint not null default 0,
  ack_requests       bigint not null default 0,
  ack_success        bigint not null default 0,
  ack_failed         bigint not null default 0,
  transactions       bigint not null default 0,
  partitions_created bigint not null default 0,
  dead_letters       bigint not null default 0,
  expired            bigint not null default 0,
  completed          bigint not null default 0,
  evicted            bigint not null default 0,
  retention_steps    bigint not null default 0,
  lag_count          bigint not null default 0,
  lag_sum_ms         bigint not null default 0,
  lag_max_ms         bigint not null default 0,
  parked             bigint not null default 0,
  conflated          bigint not null default 0,
  primary key (minutes, bucket, queue_id, broker)
);

create table if not exists waggle.broker_metric (
  minutes       smallint not null,
  bucket        timestamptz not null,
  broker        text collate "C" not null,
  samples       bigint not null default 0,
  cpu_user_ms   bigint not null default 0,
  cpu_system_ms bigint not null default 0,
  elapsed_ms    bigint not null default 0,
  memory_bytes  bigint not null default 0,
  pool_size     bigint not null default 0,
  pool_idle     bigint not null default 0,
  db_errors     bigint not null default 0,
  primary key (minutes, bucket, broker)
);
