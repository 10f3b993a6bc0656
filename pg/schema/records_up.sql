-- Records, up: under the exclusive lock on the gate. Queues $2 of tenant $1, all of it for null names, of all tenants for a null
-- tenant, write format $3 from now on, and builds that cannot read it are shut out. The new version tells brokers that remember
-- the queue. Locks the rows that it changes, in the order of their ids.
with held as materialized (
  select id from waggle.queue
  where ($1::uuid is null or tenant = $1::uuid) and ($2::text[] is null or name = any ($2::text[])) and write_format < $3::smallint
  order by id for no key update
), moved as (
  update waggle.queue q set write_format = $3::smallint, read_floor = greatest(q.read_floor, $3::smallint), version = q.version + 1
  from held h where q.id = h.id
  returning q.tenant, q.name, q.write_format, q.read_floor
)
select tenant, name, write_format, read_floor from moved order by tenant, name
