-- LeaderSession.Unlock, before leader_unlock: nobody leads any more, and what the jobs of epoch $1 still have in flight
-- is fenced. Locks the leader row, and waits for such a job no longer than lock_timeout.
update waggle.leader set start_id = null, name = null, pid = null, backend_start = null, since = null
where epoch = $1::bigint and start_id = $2::uuid
