-- DeleteQueue, under the partitions' locks, in the order of every other cursor lock.
with locked as (
  select c.id from waggle.cursor c
  where c.partition_id in (select p.id from waggle.partition p where p.queue_id = $1)
  order by c.partition_id, c.group_id for update
)
delete from waggle.cursor c using locked l where c.id = l.id
