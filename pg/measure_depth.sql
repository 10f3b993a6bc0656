-- MeasureDepth: how much group $3 has before it in the queue $2 of tenant $1: in all partitions together, and in the
-- first $4 by name, each row with the sums. Pending is what is not consumed, processing the part of it inside a live
-- lease. A group that there is not has everything before it; a registered one without a cursor begins where its
-- registration says; one that only pops single partitions has a say where it has a cursor. One row without a partition
-- when the queue has none, no row when there is no queue. Two index probes a partition; locks nothing.
with queue as materialized (
  select q.id, g.id as group_id, g.registered_at, g.start_mode, g.start_at, coalesce(g.conflation, false) as conflation
  from waggle.queue q left join waggle.consumer_group g on g.queue_id = q.id and g.name = $3
  where q.tenant = $1 and q.name = $2
), counted as materialized (
  select p.name, b.pending,
         case when c.lease is not null and c.lease_expires_at > clock_timestamp()
              then least(b.pending, greatest(c.batch_end + 1 - b.first, 0)) else 0 end as processing
  from queue q
  join waggle.partition p on p.queue_id = q.id
  left join waggle.log_start f on f.partition_id = p.id
  left join waggle.cursor c on c.partition_id = p.id and c.group_id = q.group_id
  left join lateral (select s.base_offset + s.count as next from waggle.segment s
                     where s.partition_id = p.id order by s.base_offset desc limit 1) n on true
  cross join lateral (
    select greatest(coalesce(f.live_offset, 0), case
             when c.id is not null then c.committed + 1
             when q.group_id is null or q.registered_at is not null and q.start_mode = 0 then 0
             when q.registered_at is not null then coalesce((
               select s.base_offset from waggle.segment s
               where s.partition_id = p.id and s.created_at >= q.start_at order by s.base_offset limit 1), n.next, 0)
             else coalesce(n.next, 0) end) as first
  ) a
  cross join lateral (select a.first, greatest(coalesce(n.next, 0) - a.first, 0) as pending) b
), sums as (
  select coalesce(sum(pending), 0)::bigint as pending, coalesce(sum(processing), 0)::bigint as processing,
         count(*) filter (where pending > 0) as partitions_pending,
         count(*) filter (where pending > processing) as partitions_ready
  from counted
)
select q.conflation, s.pending, s.processing, s.partitions_pending, s.partitions_ready, c.name,
       coalesce(c.pending, 0), coalesce(c.processing, 0)
from queue q
cross join sums s
left join (select * from counted order by name limit $4) c on true
order by c.name
