-- Called once before the rounds. Locks nothing that anybody else uses: all of it belongs to this run.
-- The segment table is shaped like waggle's own; the probe is the row of the one-row UPDATE.
create schema if not exists waggle_bench;

drop table if exists waggle_bench.segment, waggle_bench.probe;

create table waggle_bench.segment (
  partition_id bigint not null,
  base_offset  bigint not null,
  created_at   timestamptz not null,
  count        integer not null,
  format       smallint not null,
  ids          bytea not null,
  body         bytea,
  primary key (partition_id, base_offset)
);

alter table waggle_bench.segment alter column ids set storage external, alter column body set storage external;

create index on waggle_bench.segment (created_at) include (partition_id);

create table waggle_bench.probe (id integer primary key, n bigint not null) with (fillfactor = 50);

insert into waggle_bench.probe values (1, 0);
