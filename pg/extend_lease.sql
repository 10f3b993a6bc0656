-- ExtendLease: renews every live cursor under lease $1: the one it names ($2, 0 for none) and those of its row. Locks
-- in (partition, group) order. Never shortens.
with named as (
  select $2::bigint as id where $2 > 0
  union
  select unnest(l.cursor_ids) from waggle.lease l where l.id = $1
), held as materialized (
  select c.id from waggle.cursor c
  join waggle.partition p on p.id = c.partition_id
  join waggle.queue q on q.id = p.queue_id
  where c.id in (select n.id from named n) and c.lease = $1 and c.lease_expires_at > clock_timestamp() and q.tenant = $3
  order by c.partition_id, c.group_id
  for no key update of c
), renewed as (
  update waggle.cursor c
  set lease_expires_at = greatest(c.lease_expires_at, clock_timestamp() + make_interval(secs => $4))
  from held h where c.id = h.id
  returning c.partition_id, c.group_id, c.lease_expires_at
), kept as (
  update waggle.lease l set expires_at = greatest(l.expires_at, clock_timestamp() + make_interval(secs => $4))
  where l.id = $1 and exists (select from renewed)
)
select count(*), min(r.lease_expires_at) from renewed r
