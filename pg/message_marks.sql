-- MessageMarks: where the groups stand that have a say in partitions $1: those with a cursor there, and registered ones,
-- which without a cursor have yet to read all of it. The end and expiry of a lease are null unless it is live. Locks
-- nothing.
select p.id, g.name, coalesce(c.committed, -1),
       case when c.lease_expires_at > clock_timestamp() then c.batch_end end,
       case when c.lease_expires_at > clock_timestamp() then c.lease_expires_at end
from waggle.partition p
join waggle.consumer_group g on g.queue_id = p.queue_id
left join waggle.cursor c on c.partition_id = p.id and c.group_id = g.id
where p.id = any ($1::bigint[]) and (c.id is not null or g.registered_at is not null)
order by p.id, g.name
