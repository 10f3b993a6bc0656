-- HasLeft: when the mesh loses a peer, to tell an orderly end from a death. Takes no row lock.
select coalesce((select left_at is not null from waggle.broker where start_id = $1), false)
