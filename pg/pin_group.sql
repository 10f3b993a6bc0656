-- PinGroup, under lock_queues.sql: gives a group that pops single partitions a row for its cursors to name.
insert into waggle.consumer_group (queue_id, name) values ($1, $2) on conflict (queue_id, name) do nothing
