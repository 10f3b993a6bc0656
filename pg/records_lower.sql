-- Records: the floor falls where the last queue of a later format was deleted or taken back. Changes the gate's row only then; records_gate has
-- locked it.
update waggle.gate g set record_floor = f.needed
from (
  select greatest(
    (select coalesce(max(read_floor), 1) from waggle.queue),
    (select coalesce(max((value #>> '{}')::int), 1) from waggle.setting where name = 'record_format')) as needed
) f
where g.record_floor > f.needed
