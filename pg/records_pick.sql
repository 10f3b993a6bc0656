-- Records: the first queue whose segments have to be rewritten in an earlier record format, and its partitions. Looks at queues only
-- while any format after the first is in use. Locks nothing.
select q.id, q.write_format, array(select p.id from waggle.partition p where p.queue_id = q.id order by p.id)
from waggle.queue q
where (select record_floor from waggle.gate) > 1 and q.read_floor > q.write_format and q.id <> all ($1::bigint[])
order by q.id limit 1
