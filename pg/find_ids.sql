-- FindIDs: where hash $4 stands in partition $1 between offsets $2 and $3, the newest place first. $5 is the oldest age
-- in seconds that counts. Locks nothing; the range is immutable but for retention.
select i.ord::int - 1, found.record_offset, found.created_at
from unnest($1::bigint[], $2::bigint[], $3::bigint[], $4::bytea[]) with ordinality as i (partition_id, low, high, hash, ord)
cross join lateral (
  select s.base_offset + g as record_offset, s.created_at
  from waggle.segment s cross join lateral generate_series(0, s.count - 1) g
  where s.partition_id = i.partition_id and s.base_offset <= i.high
    and s.base_offset >= coalesce((select max(b.base_offset) from waggle.segment b
                                   where b.partition_id = i.partition_id and b.base_offset <= i.low), 0)
    and s.created_at >= clock_timestamp() - make_interval(secs => $5)
    and position(i.hash in s.ids) > 0
    and substr(s.ids, g * 16 + 1, 16) = i.hash
    and s.base_offset + g between i.low and i.high
  order by s.base_offset desc, g limit 1
) found
