-- LeaderSession.Bump, after the fence read. Locks the leader row, and waits there (lock_timeout) for the job
-- transactions of the last leader, which hold it FOR SHARE. Writes nothing unless this backend holds the advisory lock
-- ($1, $2), both as unsigned numbers.
update waggle.leader l
set epoch = l.epoch + 1, start_id = $3::uuid, name = $4::text, pid = a.pid, backend_start = a.backend_start,
    since = clock_timestamp()
from pg_stat_activity a
where a.pid = pg_backend_pid()
  and exists (
    select from pg_locks k join pg_database d on d.oid = k.database and d.datname = current_database()
    where k.locktype = 'advisory' and k.classid::bigint = $1::bigint and k.objid::bigint = $2::bigint and k.objsubid = 2
      and k.pid = a.pid and k.granted)
returning l.epoch, l.since, left(pg_walfile_name(pg_current_wal_lsn()), 8) as timeline, l.pid
