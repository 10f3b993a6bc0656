-- LeaderSession.Unlock: frees the advisory lock ($1, $2). False when it was not held.
select pg_advisory_unlock($1::int, $2::int)
