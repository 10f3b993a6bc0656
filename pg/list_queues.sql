-- ListQueues: the queues of tenant $1 (null: of all), or those called $2, newest first. Locks nothing.
select id, name, namespace, task, options, version, created_at
from waggle.queue
where ($1::uuid is null or tenant = $1) and ($2::text is null or name = $2)
order by created_at desc, id desc
