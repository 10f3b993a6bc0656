-- Migration: the trail.
select scope, version, name, applied_at, build from waggle.schema_step order by scope desc, version
