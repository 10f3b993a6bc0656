-- BuriedMessage: the newest dead letter of partition $1 of tenant $2 whose transaction id is $3 or message id $4. Locks
-- nothing.
select d.id, d.queue_id, d.group_name, d.record_offset, d.message_id, d.transaction_id, coalesce(d.producer_sub, ''), d.payload,
       d.sealed, d.error, d.retry_count, d.failed_at, coalesce(d.pushed_at, d.failed_at)
from waggle.dead_letter d join waggle.queue q on q.id = d.queue_id
where d.partition_id = $1 and q.tenant = $2 and (d.transaction_id = $3 or d.message_id = $4)
order by d.failed_at desc, d.id desc limit 1
