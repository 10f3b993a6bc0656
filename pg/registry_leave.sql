-- Leave: at the end of an orderly shutdown. Locks the broker's own row.
update waggle.broker set left_at = clock_timestamp(), draining = true where start_id = $1 and left_at is null
