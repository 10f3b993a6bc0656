-- CountLeases: the live leases in queues $1, the partitions they hold, and how many messages they cover. Locks nothing.
select count(distinct c.lease), count(distinct c.partition_id), coalesce(sum(c.batch_end - c.committed), 0)::bigint
from waggle.consumer_group g
join waggle.cursor c on c.group_id = g.id
where g.queue_id = any ($1::bigint[]) and c.lease is not null and c.lease_expires_at > clock_timestamp()
