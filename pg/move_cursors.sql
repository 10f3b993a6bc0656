-- RegisterConflating: the cursors of queue $1 that name group $2 name $3 from now on, leases and all. Locks them in
-- (partition, group) order.
with held as materialized (
  select c.id
  from waggle.partition p
  join waggle.cursor c on c.partition_id = p.id and c.group_id = $2
  where p.queue_id = $1
  order by c.partition_id, c.group_id
  for update of c
)
update waggle.cursor c set group_id = $3 from held h where c.id = h.id
