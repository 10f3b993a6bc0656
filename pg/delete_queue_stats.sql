-- DeleteQueue, after the cursors and before the partitions: the counters of its partitions, locked in id order like
-- those who count do.
with locked as (
  select s.partition_id from waggle.partition_stat s
  where s.partition_id in (select p.id from waggle.partition p where p.queue_id = $1)
  order by s.partition_id for update
)
delete from waggle.partition_stat s using locked l where s.partition_id = l.partition_id
