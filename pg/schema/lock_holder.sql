-- Apply: who holds the lock that it did not get. Reads pg_locks and pg_stat_activity; foreign details may be hidden.
select a.pid, coalesce(a.usename, ''), coalesce(a.application_name, ''), coalesce(host(a.client_addr), 'local')
from pg_locks l join pg_stat_activity a on a.pid = l.pid
where l.locktype = 'advisory' and l.granted and l.objsubid = 2
  and l.classid = $1::int4::oid and l.objid = $2::int4::oid
  and l.database = (select oid from pg_database where datname = current_database())
limit 1
