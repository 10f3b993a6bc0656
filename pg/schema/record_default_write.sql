-- Finalize: the record format that queues are made with. Locks the setting's row.
insert into waggle.setting (name, value) values ('record_format', to_jsonb($1::int))
on conflict (name) do update set value = excluded.value, changed_at = clock_timestamp()
