-- ListLagging: the partitions in which a group of tenant $1 has had something to consume for $2 s or longer, the
-- longest first, at most $3. Costs what list_groups.sql does; locks nothing.
with groups as materialized (
  select g.id, g.queue_id, g.name, q.name as queue_name, g.registered_at
  from waggle.queue q join waggle.consumer_group g on g.queue_id = q.id
  where q.tenant = $1
), heads as materialized (
  select p.id, p.queue_id, p.name, coalesce(f.live_offset, 0) as first, n.next
  from waggle.partition p
  join lateral (select s.base_offset + s.count as next from waggle.segment s
                where s.partition_id = p.id order by s.base_offset desc limit 1) n on true
  left join waggle.log_start f on f.partition_id = p.id
  where p.queue_id in (select queue_id from groups)
), behind as materialized (
  select g.name as group_name, g.queue_name, h.name as partition_name, h.id, h.next,
         greatest(coalesce(c.committed, -1) + 1, h.first) as first
  from groups g
  join heads h on h.queue_id = g.queue_id
  left join waggle.cursor c on c.partition_id = h.id and c.group_id = g.id
  where (c.id is not null or g.registered_at is not null)
    and greatest(coalesce(c.committed, -1) + 1, h.first) < h.next
)
select b.group_name, b.queue_name, b.partition_name, b.id, b.next - b.first,
       extract(epoch from clock_timestamp() - o.created_at)::float8 as seconds, o.created_at
from behind b
cross join lateral (select s.created_at from waggle.segment s
                    where s.partition_id = b.id and s.base_offset <= b.first
                    order by s.base_offset desc limit 1) o
where o.created_at <= clock_timestamp() - make_interval(secs => $2::float8)
order by o.created_at, b.group_name, b.queue_name, b.partition_name
limit $3
