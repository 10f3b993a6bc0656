-- SeekGroup, DeleteGroup: first of the lock order queue, partition, cursor: keeps the queue from being deleted.
select q.id from waggle.queue q where q.tenant = $1 and q.name = $2 for key share
