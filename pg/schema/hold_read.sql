-- Apply, Migration: the step that the schema was taken down to, beyond which no boot goes.
select (value)::text::int from waggle.setting where name = 'schema_hold'
