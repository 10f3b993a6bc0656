-- MeasureLag: for every queue and group, how many records the group has still to consume and how old the oldest of
-- them is in seconds; the $1 groups furthest behind, each row with the number of all. One pass over partitions and
-- cursors with two index probes a partition: meant for every half minute. Locks nothing.
--
-- A group without a cursor in a partition has yet to read all of it, unless it is one that only pops single
-- partitions: then that partition is none of its business.
with heads as materialized (
  select p.id, p.queue_id, coalesce(f.live_offset, 0) as first, n.next
  from waggle.partition p
  join lateral (select s.base_offset + s.count as next from waggle.segment s
                where s.partition_id = p.id order by s.base_offset desc limit 1) n on true
  left join waggle.log_start f on f.partition_id = p.id
  where p.queue_id in (select queue_id from waggle.consumer_group)
),
behind as (
  select g.id as group_id, h.id as partition_id, h.next, greatest(coalesce(c.committed, -1) + 1, h.first) as first
  from heads h
  join waggle.consumer_group g on g.queue_id = h.queue_id
  left join waggle.cursor c on c.partition_id = h.id and c.group_id = g.id
  where (c.id is not null or g.registered_at is not null)
    and greatest(coalesce(c.committed, -1) + 1, h.first) < h.next
),
lags as (
  select b.group_id, sum(b.next - b.first)::bigint as records,
         extract(epoch from clock_timestamp() - min(o.created_at))::float8 as seconds
  from behind b
  join lateral (select s.created_at from waggle.segment s
                where s.partition_id = b.partition_id and s.base_offset <= b.first
                order by s.base_offset desc limit 1) o on true
  group by b.group_id
)
select q.tenant, q.name, g.name, coalesce(l.records, 0), greatest(coalesce(l.seconds, 0), 0), count(*) over ()
from waggle.consumer_group g
join waggle.queue q on q.id = g.queue_id
left join lags l on l.group_id = g.id
order by 4 desc, 5 desc, g.id
limit $1
