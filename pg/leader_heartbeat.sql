-- LeaderSession.Heartbeat, every third of a lease. Answers all that leading rests on, and stamps leader_seen (whose row
-- it locks) only when all of it holds. The leader row is read without a lock: jobs hold it FOR SHARE.
with seen as materialized (
  select pg_backend_pid() as pid, pg_is_in_recovery() as standby, l.epoch, l.start_id,
         exists (
           select from pg_locks k join pg_database d on d.oid = k.database and d.datname = current_database()
           where k.locktype = 'advisory' and k.classid::bigint = $1::bigint and k.objid::bigint = $2::bigint
             and k.objsubid = 2 and k.pid = pg_backend_pid() and k.granted) as locked
  from waggle.leader l
), stamped as (
  update waggle.leader_seen s set seen_at = clock_timestamp()
  from seen n
  where n.locked and not n.standby and n.epoch = $3::bigint and n.start_id = $4::uuid and s.epoch = n.epoch
  returning 1
)
select n.pid, n.standby, n.locked, n.epoch, n.start_id is not distinct from $4::uuid as ours, exists (select from stamped) as stamped
from seen n
