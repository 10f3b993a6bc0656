-- Retention.Forget: the partitions after $1, a page of $2, among those where retention has been, and the ones whose
-- first row has lost its body and outlived the ids window: the greatest of the de-duplication window, the completed
-- retention and 900 s. Queues with an option that begins with 'retention' and is not among $3 are left alone. Locks
-- nothing.
with page as materialized (
  select l.partition_id, l.live_offset from waggle.log_start l where l.partition_id > $1::bigint order by l.partition_id limit $2::int
), due as materialized (
  select g.partition_id, w.seconds
  from page g
  join waggle.partition p on p.id = g.partition_id
  join waggle.queue q on q.id = p.queue_id
  cross join lateral (
    select least(3e9, greatest(
      900,
      case when jsonb_typeof(q.options -> 'dedupWindowSeconds') = 'number'
           then (q.options ->> 'dedupWindowSeconds')::float8 else 3600 end,
      case when jsonb_typeof(q.options -> 'completedRetentionSeconds') = 'number'
           then (q.options ->> 'completedRetentionSeconds')::float8 else 0 end)) as seconds
  ) w
  cross join lateral (
    select s.base_offset, s.created_at, s.body is null as empty
    from waggle.segment s where s.partition_id = g.partition_id order by s.base_offset limit 1
  ) f
  where f.empty and f.base_offset < g.live_offset
    and f.created_at < clock_timestamp() - make_interval(secs => w.seconds)
    and exists (select from waggle.segment n where n.partition_id = g.partition_id and n.base_offset > f.base_offset)
    and not exists (select from jsonb_object_keys(q.options) k where k like 'retention%' and k <> all ($3::text[]))
)
select (select count(*) from page), coalesce((select max(partition_id) from page), 0),
       array(select partition_id from due order by partition_id), array(select seconds from due order by partition_id)
