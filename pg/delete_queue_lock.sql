-- DeleteQueue: first of the lock order queue, partition, cursor.
select q.id from waggle.queue q where q.tenant = $1 and q.name = $2 for update
