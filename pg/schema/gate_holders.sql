-- Finalize, Down: who kept the gate from being locked. What a role may not see of others is empty or null.
select distinct on (a.pid) a.pid, coalesce(a.usename, ''), coalesce(a.application_name, ''),
  coalesce(extract(epoch from clock_timestamp() - a.xact_start), 0)::float8, coalesce(left(a.query, 200), '')
from pg_locks l join pg_stat_activity a on a.pid = l.pid
where l.relation = 'waggle.gate'::regclass and l.granted and l.pid <> pg_backend_pid()
order by a.pid
