-- GiveBack: ends lease $1 without charge, as if its cursors $2 had not been claimed. Locks in (partition, group) order.
with held as materialized (
  select c.id from waggle.cursor c where c.id = any ($2::bigint[]) and c.lease = $1
  order by c.partition_id, c.group_id for no key update of c
)
update waggle.cursor c
set lease = null, lease_expires_at = null, batch_end = null, attempt = greatest(c.attempt - 1, 0)
from held h where c.id = h.id
