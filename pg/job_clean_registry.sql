-- Fenced.CleanRegistry: forgets at most $2 brokers that have not been seen for $1 s, whether they left or died. Locks
-- their rows, skipping any that a broker is just writing.
delete from waggle.broker b
using (
  select start_id from waggle.broker
  where seen_at < clock_timestamp() - make_interval(secs => $1::float8)
  order by start_id limit $2::int
  for update skip locked
) g
where b.start_id = g.start_id
