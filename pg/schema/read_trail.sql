-- Current: at boot and under the lock of the apply. Share lock on the trail only.
select coalesce(array_agg(version order by version), '{}') from waggle.schema_step where scope = 'system'
