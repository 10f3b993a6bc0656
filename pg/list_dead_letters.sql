-- ListDeadLetters: the dead letters of tenant $1, newest first, of queue $2 and group $3 where given, limit $4, offset
-- $5. The page ends early, but not before its first row, where its payloads would exceed $6 bytes together; lengths
-- are read from pointers, payloads only of rows that are returned. Locks nothing.
select id, queue, partition, partition_id, group_name, transaction_id, coalesce(producer_sub, ''), payload, error,
       retry_count, failed_at, queue_id, record_offset, sealed, pushed_at
from (
  select d.*, sum(octet_length(payload)) over (order by failed_at desc, id desc) - octet_length(payload) as before
  from (
    select d.*, q.name as queue, coalesce(p.name, '') as partition
    from waggle.queue q
    join waggle.dead_letter d on d.queue_id = q.id
    left join waggle.partition p on p.id = d.partition_id
    where q.tenant = $1 and ($2::text is null or q.name = $2) and ($3::text is null or d.group_name = $3)
    order by d.failed_at desc, d.id desc
    limit $4 offset $5
  ) d
) d
where before < $6
order by failed_at desc, id desc
