-- PartitionLiveness: of the $2 queues of tenant $1 with most partitions, how many partitions were written to lately, by the
-- counters of the last pass. Reads all counters of the tenant's partitions and no segment. Locks nothing.
select q.name, q.namespace, q.task, count(*),
       count(*) filter (where s.newest > now() - interval '1 hour'),
       count(*) filter (where s.newest > now() - interval '1 day'),
       count(*) filter (where s.newest > now() - interval '7 days'),
       count(*) filter (where p.created_at > now() - interval '1 day'),
       min(s.newest), max(s.newest), sum(s.pending)::bigint
from waggle.queue q
join waggle.partition_stat s on s.queue_id = q.id
join waggle.partition p on p.id = s.partition_id
where q.tenant = $1::uuid
group by q.id
order by count(*) desc, q.name
limit $2::int
