-- scope: system
-- kind: additive
-- What operators want to know of the leader's jobs, and which builds may do them.
-- Applied by the schema package, one statement per transaction; every statement may be repeated without harm.

-- min_build is the lowest system step that a broker has to know to run the job.
alter table waggle.job add column if not exists last_failure timestamptz, add column if not exists last_rows bigint not null default 0,
  add column if not exists min_build integer not null default 0;

-- What hangs on a partition is found by it.
create index if not exists dead_letter_partition on waggle.dead_letter (partition_id, record_offset);
create index if not exists stream_state_partition on waggle.stream_state (partition_id);
