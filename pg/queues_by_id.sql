-- QueuesByID: locks nothing.
select q.id, q.tenant, q.name, q.namespace, q.task, q.options, q.version, q.write_format
from waggle.queue q where q.id = any ($1::bigint[])
