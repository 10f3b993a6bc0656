-- TracesOfMessage: the newest traces of tenant $1 about the message $4 (hash $3) of partition $2, oldest first: at most
-- $5, and no more than $6 bytes of data together, but at least one. Locks nothing.
select id, event_type, data, group_name, created_at, names, transaction_id, partition_id, queue_name, partition_name
from (
  select t.*, sum(octet_length(t.data)) over (order by t.created_at desc, t.id desc) - octet_length(t.data) as before
  from (
    select t.* from waggle.trace t
    where t.partition_id = $2 and t.transaction_hash = $3 and t.transaction_id = $4 and t.tenant = $1
    order by t.created_at desc, t.id desc
    limit $5
  ) t
) t
where before < $6
order by created_at, id
