-- DeleteGroup, of a group that goes: locks the row as its deletion will, before any cursor. With less, a SeedCursors that
-- holds the row too would wait for a cursor's deletion, and the deletion of the row for it.
select g.id, g.generation from waggle.consumer_group g where g.queue_id = $1 and g.name = $2 for update
