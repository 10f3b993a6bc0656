-- DescribeGroup: where the group $2 of tenant $1 stands in each partition of its queues, by queue and partition, at
-- most $3 rows. A queue without partitions is a row without one. Two index probes a partition; locks nothing.
select q.name, g.conflation, p.name, coalesce(c.committed, -1) + 1,
       greatest(coalesce(n.next, 0) - a.first, 0),
       case when coalesce(n.next, 0) > a.first then greatest(extract(epoch from clock_timestamp() - o.created_at), 0) else 0 end::float8,
       coalesce(c.lease is not null and c.lease_expires_at > clock_timestamp(), false)
from waggle.queue q
join waggle.consumer_group g on g.queue_id = q.id and g.name = $2
left join (waggle.partition p left join waggle.log_start f on f.partition_id = p.id) on p.queue_id = q.id
left join waggle.cursor c on c.partition_id = p.id and c.group_id = g.id
left join lateral (select s.base_offset + s.count as next from waggle.segment s
                   where s.partition_id = p.id order by s.base_offset desc limit 1) n on true
cross join lateral (select greatest(coalesce(c.committed, -1) + 1, coalesce(f.live_offset, 0)) as first) a
left join lateral (select s.created_at from waggle.segment s
                   where s.partition_id = p.id and s.base_offset <= a.first
                   order by s.base_offset desc limit 1) o on true
where q.tenant = $1 and (p.id is null or c.id is not null or g.registered_at is not null)
order by q.name, p.name
limit $3
