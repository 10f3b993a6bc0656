-- TracesByName: the traces of tenant $1 under the name $2, newest first, limit $3, offset $4. The page ends early, but
-- not before its first row, where its data would exceed $5 bytes together. Locks nothing.
select id, event_type, data, group_name, created_at, names, transaction_id, partition_id, queue_name, partition_name
from (
  select t.*, sum(octet_length(t.data)) over (order by t.created_at desc, t.id desc) - octet_length(t.data) as before
  from (
    select n.trace_id from waggle.trace_name n
    where n.tenant = $1 and n.name = $2
    order by n.created_at desc, n.trace_id desc
    limit $3 offset $4
  ) n
  join waggle.trace t on t.id = n.trace_id
) t
where before < $5
order by created_at desc, id desc
