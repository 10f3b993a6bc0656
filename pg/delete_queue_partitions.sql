-- DeleteQueue: takes the partitions' rows away and leaves their segments to the leader.
with gone as (
  delete from waggle.partition p where p.queue_id = $1 returning p.id
), purged as (
  insert into waggle.purge (partition_id) select g.id from gone g on conflict (partition_id) do nothing
)
select count(*) from gone
