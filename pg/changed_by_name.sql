-- ChangedPartitions, where much was written since: walks the partitions of queue $1 by name after $3 and takes those whose
-- newest record was written at or after $2 (null: all), at most $4 of them. Locks nothing.
select p.id, p.name, n.base_offset + n.count - 1,
       least(greatest(coalesce(f.live_offset, 0), o.base_offset), n.base_offset + n.count), n.created_at
from waggle.partition p
left join waggle.log_start f on f.partition_id = p.id
cross join lateral (
  select s.base_offset from waggle.segment s where s.partition_id = p.id order by s.base_offset limit 1
) o
cross join lateral (
  select s.base_offset, s.count, s.created_at from waggle.segment s where s.partition_id = p.id order by s.base_offset desc limit 1
) n
where p.queue_id = $1::bigint and ($3::text is null or p.name > $3::text)
  and ($2::timestamptz is null or n.created_at >= $2::timestamptz)
order by p.name limit $4::int
