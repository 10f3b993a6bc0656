-- ListPartitions: the partitions of queue $1. Locks nothing.
select id, name, created_at from waggle.partition where queue_id = $1 order by name
