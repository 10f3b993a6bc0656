-- SeedCursors, under lock_partitions.sql: keeps the group from being deleted while cursors are made for it, and says
-- where it begins: its subscription may have been changed.
select g.registered_at is not null, g.start_mode, g.start_at from waggle.consumer_group g where g.id = $1 for key share
