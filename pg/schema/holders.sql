-- Apply, Finalize, Down: the sessions that hold locks on the relations $1 of the schema in transactions older than $2 s, the
-- oldest first. What a role may not see of others is empty or null. Locks nothing.
select pid, usename, application, age, query
from (
  select distinct on (a.pid) a.pid, coalesce(a.usename, '') as usename, coalesce(a.application_name, '') as application,
    coalesce(extract(epoch from clock_timestamp() - a.xact_start), 0)::float8 as age, coalesce(left(a.query, 200), '') as query
  from pg_locks l join pg_stat_activity a on a.pid = l.pid
  where l.relation = any (array(select to_regclass('waggle.' || quote_ident(name)) from unnest($1::text[]) name)::oid[])
    and l.database = (select oid from pg_database where datname = current_database())
    and l.granted and l.pid <> pg_backend_pid()
  order by a.pid
) held
where age >= $2::float8
order by age desc, pid
