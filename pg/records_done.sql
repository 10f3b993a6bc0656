-- Records: nothing of a later format than $2 is left in queue $1, if nobody has moved it meanwhile: builds that read that format only may
-- come back. Locks the queue's row and the gate's.
with lowered as (
  update waggle.queue set read_floor = write_format where id = $1::bigint and write_format = $2::smallint and read_floor > write_format
  returning id
)
update waggle.gate set record_floor = greatest(
  (select coalesce(max(q.read_floor), 1) from waggle.queue q where q.id not in (select id from lowered)), $2::smallint,
  (select coalesce(max((value #>> '{}')::int), 1) from waggle.setting where name = 'record_format'))
where exists (select from lowered)
