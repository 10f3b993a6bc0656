-- scope: system
-- kind: additive
-- Switches of the whole cluster that outlive every broker.
-- Applied by the schema package, one statement per transaction; every statement may be repeated without harm.

create table if not exists waggle.setting (
  name       text collate "C" primary key,
  value      jsonb not null,
  changed_at timestamptz not null default clock_timestamp()
);
