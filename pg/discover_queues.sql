-- DiscoverQueues: the queues of a tenant whose namespace and task equal the given ones; null does not bind.
select q.id, q.tenant, q.name, q.namespace, q.task, q.options, q.version, q.write_format
from waggle.queue q
where q.tenant = $1 and ($2::text is null or q.namespace = $2) and ($3::text is null or q.task = $3)
order by q.id
