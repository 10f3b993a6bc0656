-- DeleteGroup, of a group that stays: says that its cursors are moved by something else than consuming. Locks the
-- group's row: moves of one group follow each other. SeedCursors may go on; the cursors' unique key orders the two.
update waggle.consumer_group set generation = generation + 1 where queue_id = $1 and name = $2
returning id, generation
