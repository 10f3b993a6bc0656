-- ReturnClaims: ends leases that a flush may have taken without anybody learning of it: of the cursors at (partition
-- $1, group $2) those that hold lease $3. As if they had not been claimed. Locks in (partition, group) order.
with held as materialized (
  select c.id
  from unnest($1::bigint[], $2::bigint[], $3::uuid[]) as i (partition_id, group_id, lease)
  join waggle.cursor c on c.partition_id = i.partition_id and c.group_id = i.group_id and c.lease = i.lease
  order by c.partition_id, c.group_id
  for no key update of c
)
update waggle.cursor c
set lease = null, lease_expires_at = null, batch_end = null, attempt = greatest(c.attempt - 1, 0)
from held h where c.id = h.id
