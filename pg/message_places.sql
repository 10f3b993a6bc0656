-- MessagePlaces: the names of partitions $2 of tenant $1, and the options of their queues. Locks nothing.
select p.id, p.name, q.id, q.name, q.namespace, q.task, q.options
from waggle.partition p join waggle.queue q on q.id = p.queue_id
where p.id = any ($2::bigint[]) and q.tenant = $1
