-- MessageMode: which groups there are in the queues of tenant $1 with name $2, namespace $3 and task $4 where given.
-- Locks nothing.
select coalesce(bool_or(g.name = '__QUEUE_MODE__'), false), count(distinct g.name) filter (where g.name <> '__QUEUE_MODE__')
from waggle.queue q join waggle.consumer_group g on g.queue_id = q.id
where q.tenant = $1 and ($2::text is null or q.name = $2) and ($3::text is null or q.namespace = $3)
  and ($4::text is null or q.task = $4)
