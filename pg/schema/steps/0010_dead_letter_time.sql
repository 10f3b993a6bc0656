-- scope: system
-- kind: additive
-- When a dead letter's message was pushed. Builds that do not know the column leave it empty.
-- Applied by the schema package, one statement per transaction; every statement may be repeated without harm.

alter table waggle.dead_letter add column if not exists pushed_at timestamptz;
