-- PeekCursors: what ack_cursor.sql reads, for many cursors and without a lock: to resolve offsets that the flush checks
-- again.
select i.ord::int - 1, c.id, c.committed, coalesce(c.batch_end, -1), c.lease,
       c.lease is not null and c.lease_expires_at > clock_timestamp(), c.retry, g.id, g.conflation
from unnest($1::bigint[], $2::bigint[]) with ordinality as i (queue_id, partition_id, ord)
join waggle.consumer_group g on g.queue_id = i.queue_id and g.name = $3
join waggle.cursor c on c.group_id = g.id and c.partition_id = i.partition_id
