-- Fenced.CleanTraces: deletes traces older than $1 s with their names, oldest first, at most $2; one that another run
-- is deleting is skipped. Locks the rows that it deletes.
with old as materialized (
  select t.id, t.tenant, t.names, t.created_at from waggle.trace t
  where t.created_at < clock_timestamp() - make_interval(secs => $1)
  order by t.created_at limit $2 for update skip locked
), names as (
  delete from waggle.trace_name n
  using (select o.id, o.tenant, o.created_at, unnest(o.names) as name from old o) o
  where n.tenant = o.tenant and n.name = o.name and n.created_at = o.created_at and n.trace_id = o.id
)
delete from waggle.trace t using old o where t.id = o.id
