-- MessageSegments, for many partitions: as message_segments.sql, found by the index on created_at. Filters as in
-- message_partitions.sql, $7 to $11. What lies within the time and is not meant is passed over: a queue with few
-- messages among many of others takes as long as those. Locks nothing.
select s.partition_id, s.base_offset, s.count, s.created_at, octet_length(s.body)
from waggle.segment s
join waggle.partition p on p.id = s.partition_id
join waggle.queue q on q.id = p.queue_id
where s.created_at >= $1::timestamptz and s.created_at < $2::timestamptz and s.created_at <= $3::timestamptz
  and (s.created_at, s.partition_id, s.base_offset) < ($3::timestamptz, $4::bigint, $5::bigint) and s.body is not null
  and q.tenant = $7 and ($8::text is null or q.name = $8) and ($9::text is null or p.name = $9)
  and ($10::text is null or q.namespace = $10) and ($11::text is null or q.task = $11)
order by s.created_at desc, s.partition_id desc, s.base_offset desc
limit $6::int
