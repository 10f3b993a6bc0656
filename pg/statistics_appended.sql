-- Statistics.Pass: the partitions of the first $2 segments stamped at $1 or later, the last of these stamps, and whether
-- there may be more. Reads nothing but an index, and of that what is new. Locks nothing.
with new as materialized (
  select s.partition_id, s.created_at from waggle.segment s
  where s.created_at >= $1::timestamptz order by s.created_at limit $2::int
)
select array(select distinct n.partition_id from new n order by 1), (select max(n.created_at) from new n),
       (select count(*) from new n) = $2::int
