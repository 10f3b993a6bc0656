-- Fenced.Purge, last in its transaction: forgets the picked partitions $1 that have no segment left, and what streams
-- remembered of them. Locks log_start, stream_state and purge rows.
with done as materialized (
  select p.id from unnest($1::bigint[]) as p (id)
  where not exists (select from waggle.segment s where s.partition_id = p.id)
), starts as (
  delete from waggle.log_start l using done d where l.partition_id = d.id
), states as (
  delete from waggle.stream_state t using done d where t.partition_id = d.id
)
delete from waggle.purge p using done d where p.partition_id = d.id
