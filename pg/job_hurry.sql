-- HurryJob: makes the job due now, on or off, and says whether it is on. Locks the job's row.
update waggle.job set next_due = least(next_due, clock_timestamp()) where name = $1::text returning enabled
