-- Hydrate: ids of the newest segments of each partition $1 below offset $2, at most $3 a partition, newest first, with
-- their age in microseconds by this server's clock. Locks nothing.
select p.partition_id, s.base_offset, s.created_at, s.count, s.ids,
       (extract(epoch from clock_timestamp() - s.created_at) * 1000000)::bigint as age
from unnest($1::bigint[], $2::bigint[]) as p (partition_id, below)
cross join lateral (
  select s.base_offset, s.created_at, s.count, s.ids from waggle.segment s
  where s.partition_id = p.partition_id and s.base_offset < p.below
  order by s.base_offset desc limit $3
) s
order by p.partition_id, s.base_offset desc
