-- IDsAfter: the ids of the segments of partition $1 that reach past offset $2, oldest first, at most $3 of them. Locks
-- nothing.
select s.base_offset, s.created_at, s.count, s.ids
from waggle.segment s
where s.partition_id = $1::bigint
  and s.base_offset >= coalesce((select max(b.base_offset) from waggle.segment b
                                 where b.partition_id = $1::bigint and b.base_offset <= $2::bigint + 1), 0)
  and s.base_offset + s.count > $2::bigint + 1
order by s.base_offset limit $3::int
