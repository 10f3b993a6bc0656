-- RegisterGroup, under lock_queues.sql: the first pop of a group that names no partition registers it. now() is the
-- start of the transaction, so it lies before the snapshot that seeds the cursors and after nothing written before.
insert into waggle.consumer_group (queue_id, name, registered_at, start_mode, start_at)
values ($1, $2, now(), $3, coalesce($4::timestamptz, now()))
on conflict (queue_id, name) do update
set registered_at = excluded.registered_at, start_mode = excluded.start_mode, start_at = excluded.start_at
where waggle.consumer_group.registered_at is null
