-- Records: the floor follows the highest format that any queue may hold, and that new queues get.
update waggle.gate set record_floor = greatest(
  (select coalesce(max(read_floor), 1) from waggle.queue),
  (select coalesce(max((value #>> '{}')::int), 1) from waggle.setting where name = 'record_format'))
