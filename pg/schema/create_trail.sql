-- Apply: the trail comes before the first step, which is recorded in it.
create table if not exists waggle.schema_step (
  scope      text not null check (scope in ('system', 'queue')),
  version    integer not null,
  name       text not null,
  applied_at timestamptz not null default clock_timestamp(),
  build      text not null,
  primary key (scope, version)
)
