-- Retention.Forget, one partition: deletes rows without a body among the first $3 of partition $1 that are older than
-- $2 s, except the partition's last row. Appends only add rows behind it and never read rows beyond the window, so the
-- partition is not locked; a row that another run is deleting is skipped.
delete from waggle.segment s
using (
  select n.base_offset
  from (
    select f.base_offset from waggle.segment f where f.partition_id = $1::bigint order by f.base_offset limit $3::int
  ) f
  join waggle.segment n on n.partition_id = $1::bigint and n.base_offset = f.base_offset
  where n.body is null and n.created_at < clock_timestamp() - make_interval(secs => $2::float8)
    and n.base_offset < (select max(h.base_offset) from waggle.segment h where h.partition_id = $1::bigint)
    and n.base_offset < (select l.live_offset from waggle.log_start l where l.partition_id = $1::bigint)
  order by n.base_offset
  for update of n skip locked
) g
where s.partition_id = $1::bigint and s.base_offset = g.base_offset
