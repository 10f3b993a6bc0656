-- LeaderSession.Holder: who holds the advisory lock ($1, $2), both as unsigned numbers. Names of other roles' sessions
-- may be hidden from us. Locks nothing.
select k.pid, coalesce(a.usename, '?') as role, coalesce(a.application_name, '?') as application
from pg_locks k
join pg_database d on d.oid = k.database and d.datname = current_database()
left join pg_stat_activity a on a.pid = k.pid
where k.locktype = 'advisory' and k.classid::bigint = $1::bigint and k.objid::bigint = $2::bigint and k.objsubid = 2
  and k.granted
