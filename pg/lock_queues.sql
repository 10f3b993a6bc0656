-- EnsurePartitions: keeps the queues from being deleted while partitions are added to them; in id order. Returns
-- those that are there.
select q.id from waggle.queue q where q.id = any ($1::bigint[]) order by q.id for key share
