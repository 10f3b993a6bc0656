-- Bundle: writes what was decided about cursors under the locks of bundle_cursors.sql.
update waggle.cursor c
set committed = i.committed,
    batch_end = case when i.release then null else c.batch_end end,
    lease = case when i.release then null else c.lease end,
    lease_expires_at = case when i.release then null else c.lease_expires_at end,
    retry = i.retry
from unnest($1::bigint[], $2::bigint[], $3::boolean[], $4::int[]) as i (id, committed, release, retry)
where c.id = i.id
