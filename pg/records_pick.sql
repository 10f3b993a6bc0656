-- Records: whether a record format after the first is in use, and the first queue whose segments have to be rewritten in an earlier one,
-- with its partitions, nulls where there is none. Looks at queues only while such a format is in use. Locks nothing.
select g.record_floor > 1, q.id, q.write_format, q.partitions
from waggle.gate g left join lateral (
  select q.id, q.write_format, array(select p.id from waggle.partition p where p.queue_id = q.id order by p.id) as partitions
  from waggle.queue q
  where g.record_floor > 1 and q.read_floor > q.write_format and q.id <> all ($1::bigint[])
  order by q.id limit 1
) q on true
