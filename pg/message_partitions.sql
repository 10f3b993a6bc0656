-- MessagePartitions: up to $6 partitions of tenant $1, of the queue $2, partition $3, namespace $4 and task $5 where
-- given. Locks nothing.
select p.id
from waggle.queue q
join waggle.partition p on p.queue_id = q.id
where q.tenant = $1 and ($2::text is null or q.name = $2) and ($3::text is null or p.name = $3)
  and ($4::text is null or q.namespace = $4) and ($5::text is null or q.task = $5)
limit $6
