-- FindQueues: the queues of the given (tenant, name) pairs that exist. Locks nothing.
select q.id, q.tenant, q.name, q.namespace, q.task, q.options, q.version, q.write_format
from unnest($1::uuid[], $2::text[]) as i (tenant, name)
join waggle.queue q on q.tenant = i.tenant and q.name = i.name
