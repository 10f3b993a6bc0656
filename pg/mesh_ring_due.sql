-- RequestRotation and Fenced.AdvanceRotation: makes job $1 due, after the lock of mesh_ring_hold.sql. A job that was never
-- run has no row and is due anyway. Locks the job row.
update waggle.job set next_due = clock_timestamp() where name = $1::text
