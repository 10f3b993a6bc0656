-- RegisterConflating, under lock_queues.sql: as register_group.sql, with the policy, and with a new id where the group
-- had a row already. Locks that row; move_cursors.sql brings its cursors along.
insert into waggle.consumer_group (queue_id, name, registered_at, start_mode, start_at, conflation)
values ($1, $2, now(), $3, coalesce($4::timestamptz, now()), true)
on conflict (queue_id, name) do update
set id = default, registered_at = excluded.registered_at, start_mode = excluded.start_mode, start_at = excluded.start_at,
    conflation = true
where waggle.consumer_group.registered_at is null
