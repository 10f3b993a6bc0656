-- Configure: holds the queue row while its options are merged.
select q.id, q.tenant, q.name, q.namespace, q.task, q.options, q.version, q.write_format
from waggle.queue q where q.tenant = $1 and q.name = $2 for no key update
