-- SegmentAt: the segment of partition $1 that holds offset $2. Locks nothing.
select s.base_offset, s.created_at, s.count, s.format, s.ids, s.body
from waggle.segment s
where s.partition_id = $1 and s.base_offset <= $2 and s.base_offset + s.count > $2
order by s.base_offset desc limit 1
