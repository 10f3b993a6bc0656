-- ListGroups: the groups of tenant $1 with how far each is behind, in all of its queues, or in the one called $2. A
-- group that only pops single partitions is behind only where it has a cursor. Two index probes a partition, one more
-- where a group is behind; locks nothing.
with groups as materialized (
  select g.id, g.queue_id, g.name, q.name as queue_name, g.registered_at, g.start_mode, g.start_at, g.conflation
  from waggle.queue q join waggle.consumer_group g on g.queue_id = q.id
  where q.tenant = $1 and ($2::text is null or q.name = $2)
), heads as materialized (
  select p.id, p.queue_id, coalesce(f.live_offset, 0) as first, coalesce(n.next, 0) as next
  from waggle.partition p
  left join waggle.log_start f on f.partition_id = p.id
  left join lateral (select s.base_offset + s.count as next from waggle.segment s
                     where s.partition_id = p.id order by s.base_offset desc limit 1) n on true
  where p.queue_id in (select queue_id from groups)
), places as materialized (
  select g.id as group_id, h.id as partition_id, h.next, c.id is not null as placed,
         greatest(coalesce(c.committed, -1) + 1, h.first) as first
  from groups g
  join heads h on h.queue_id = g.queue_id
  left join waggle.cursor c on c.partition_id = h.id and c.group_id = g.id
  where c.id is not null or g.registered_at is not null
), sums as (
  select group_id, count(*) filter (where placed) as cursors, count(*) filter (where first < next) as behind,
         coalesce(sum(next - first) filter (where first < next), 0)::bigint as records
  from places group by group_id
), ages as (
  select b.group_id, extract(epoch from clock_timestamp() - min(o.created_at))::float8 as seconds
  from places b
  cross join lateral (select s.created_at from waggle.segment s
                      where s.partition_id = b.partition_id and s.base_offset <= b.first
                      order by s.base_offset desc limit 1) o
  where b.first < b.next
  group by b.group_id
)
select g.name, g.queue_name, coalesce(s.cursors, 0), coalesce(s.behind, 0), coalesce(s.records, 0),
       greatest(coalesce(a.seconds, 0), 0), g.registered_at, g.start_mode, g.start_at, g.conflation
from groups g
left join sums s on s.group_id = g.id
left join ages a on a.group_id = g.id
order by g.name, g.queue_name
