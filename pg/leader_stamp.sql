-- LeaderSession.Bump, same transaction: the first stamp of the new epoch $1. Locks the leader_seen row, after the leader
-- row.
update waggle.leader_seen set epoch = $1::bigint, seen_at = clock_timestamp()
