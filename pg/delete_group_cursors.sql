-- DeleteGroup, under the group's lock: deletes the cursors of group $2 in queue $1, leases with them. Locks them in the
-- order of every other cursor lock, partitions not at all. Leaves word for the statistics.
with locked as materialized (
  select c.id, c.partition_id from waggle.partition p
  join waggle.cursor c on c.partition_id = p.id and c.group_id = $2
  where p.queue_id = $1
  order by c.partition_id, c.group_id for update of c
), told as (
  insert into waggle.touched (partition_id) select l.partition_id from locked l
)
delete from waggle.cursor c using locked l where c.id = l.id
