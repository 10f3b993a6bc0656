-- Down: under the exclusive lock on the gate. Locks the setting's row.
insert into waggle.setting (name, value) values ('schema_hold', to_jsonb($1::int))
on conflict (name) do update set value = excluded.value, changed_at = clock_timestamp()
