-- AckSet: locks one cursor, waiting for it; the transaction locks no other. The queue's version tells whether its
-- options are those that the broker knows.
select c.id, c.committed, coalesce(c.batch_end, -1), c.lease,
       c.lease is not null and c.lease_expires_at > clock_timestamp(), c.retry, g.id, g.conflation, q.version
from waggle.consumer_group g
join waggle.queue q on q.id = g.queue_id
join waggle.cursor c on c.group_id = g.id and c.partition_id = $2
where g.queue_id = $1 and g.name = $3
for no key update of c
