-- WriteSetting: sets a switch of the whole cluster. Locks its row.
insert into waggle.setting (name, value) values ($1::text, to_jsonb($2::boolean))
on conflict (name) do update set value = excluded.value, changed_at = clock_timestamp()
