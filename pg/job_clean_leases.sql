-- Fenced.CleanLeases: forgets at most $2 multi-partition leases that ended more than $1 s ago. Their cursors know by
-- themselves that the lease is over. Ids rise with time, so the oldest stand first. Locks the lease rows, skipping any
-- that somebody is just extending.
delete from waggle.lease l
using (
  select id from waggle.lease
  where expires_at < clock_timestamp() - make_interval(secs => $1::float8)
  order by id limit $2::int
  for update skip locked
) g
where l.id = g.id
