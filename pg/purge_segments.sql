-- Fenced.Purge, same transaction: deletes the first segments of the picked partitions $1, at most $2 rows, and no more
-- once $3 bytes of bodies are reached. Locks the segment rows; nobody else deletes segments of a picked partition but
-- retention that was under way, for which it waits.
with seen as (
  select s.partition_id, s.base_offset, sum(s.bytes) over (order by s.partition_id, s.base_offset) - s.bytes as before
  from (
    select n.partition_id, n.base_offset, n.bytes
    from unnest($1::bigint[]) as p (id)
    cross join lateral (
      select s.partition_id, s.base_offset, coalesce(octet_length(s.body), 0)::bigint as bytes
      from waggle.segment s where s.partition_id = p.id order by s.base_offset limit $2::int
    ) n
    limit $2::int
  ) s
)
delete from waggle.segment s
using seen n
where s.partition_id = n.partition_id and s.base_offset = n.base_offset and n.before < $3::bigint
