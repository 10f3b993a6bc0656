-- Apply: after the last statement of a step. A row of its own; no other lock.
insert into waggle.schema_step (scope, version, name, build) values ($1, $2, $3, $4) on conflict do nothing
