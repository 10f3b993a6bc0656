-- FetchSegments: of each partition the segments from the one that holds the offset on, without bodies, in order, at most $4
-- of them and no more than are needed for so many bytes. Locks nothing.
select w.ord::int - 1, w.base_offset, w.created_at, w.count
from (
  select i.ord, i.bytes, s.base_offset, s.created_at, s.count,
         sum(s.size::bigint) over (partition by i.ord order by s.base_offset) - s.size as before
  from unnest($1::bigint[], $2::bigint[], $3::bigint[]) with ordinality as i (partition_id, first, bytes, ord)
  cross join lateral (
    select s.base_offset, s.created_at, s.count, s.size from waggle.segment s
    where s.partition_id = i.partition_id
      and s.base_offset >= coalesce((select max(b.base_offset) from waggle.segment b
                                     where b.partition_id = i.partition_id and b.base_offset <= i.first), 0)
      and s.base_offset + s.count > i.first and s.body is not null
    order by s.base_offset limit $4::int
  ) s
) w
where w.before < w.bytes
order by w.ord, w.base_offset
