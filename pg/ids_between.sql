-- IDsBetween: the ids of the segments that reach into (low, high] of each partition, oldest first. Locks nothing.
select i.ord::int - 1, s.base_offset, s.created_at, s.count, s.ids
from unnest($1::bigint[], $2::bigint[], $3::bigint[]) with ordinality as i (partition_id, low, high, ord)
join waggle.segment s on s.partition_id = i.partition_id and s.base_offset <= i.high
  and s.base_offset >= coalesce((select max(b.base_offset) from waggle.segment b
                                 where b.partition_id = i.partition_id and b.base_offset <= i.low + 1), 0)
order by i.ord, s.base_offset
