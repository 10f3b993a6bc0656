-- ReadSegments: the segments at (partition, base). Locks nothing.
select i.ord::int - 1, s.base_offset, s.created_at, s.count, s.format, s.ids, s.body
from unnest($1::bigint[], $2::bigint[]) with ordinality as i (partition_id, base_offset, ord)
join waggle.segment s on s.partition_id = i.partition_id and s.base_offset = i.base_offset
