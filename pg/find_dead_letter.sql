-- FindDeadLetter: the dead letter $1 of tenant $2, if it has one. Locks nothing.
select d.id, q.name, coalesce(p.name, ''), d.partition_id, d.group_name, d.transaction_id, coalesce(d.producer_sub, ''), d.payload,
       d.error, d.retry_count, d.failed_at, d.queue_id, d.record_offset, d.sealed, d.pushed_at
from waggle.dead_letter d
join waggle.queue q on q.id = d.queue_id
left join waggle.partition p on p.id = d.partition_id
where d.id = $1::bigint and q.tenant = $2::uuid
