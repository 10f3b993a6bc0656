-- Bundle: locks the cursors of (queue, partition, group name), waiting for them, in (partition, group) order, after the
-- partitions. A cursor that does not exist is missing from the answer. The queue's version tells whether its options are
-- those that the broker knows.
with input as materialized (
  select * from unnest($1::bigint[], $2::bigint[], $3::text[]) with ordinality as i (queue_id, partition_id, name, ord)
), locked as materialized (
  select i.ord, c.id, c.committed, c.batch_end, c.lease, c.lease_expires_at, c.retry, c.group_id, g.conflation, q.version
  from input i
  join waggle.queue q on q.id = i.queue_id
  join waggle.consumer_group g on g.queue_id = i.queue_id and g.name = i.name
  join waggle.cursor c on c.group_id = g.id and c.partition_id = i.partition_id
  order by c.partition_id, c.group_id
  for no key update of c
)
select l.ord::int - 1, l.id, l.committed, coalesce(l.batch_end, -1), l.lease,
       coalesce(l.lease is not null and l.lease_expires_at > clock_timestamp(), false), l.retry, l.group_id, l.conflation,
       l.version
from locked l
