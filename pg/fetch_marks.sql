-- FetchMarks: of each partition the lowest retained offset and the one that the next record will get. Locks nothing.
-- Where everything was emptied both are the same.
select i.ord::int - 1, least(greatest(coalesce(f.live_offset, 0), o.base_offset), n.base_offset + n.count), n.base_offset + n.count
from unnest($1::bigint[]) with ordinality as i (partition_id, ord)
left join waggle.log_start f on f.partition_id = i.partition_id
cross join lateral (
  select s.base_offset from waggle.segment s where s.partition_id = i.partition_id order by s.base_offset limit 1
) o
cross join lateral (
  select s.base_offset, s.count from waggle.segment s where s.partition_id = i.partition_id order by s.base_offset desc limit 1
) n
