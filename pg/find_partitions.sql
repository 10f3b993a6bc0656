-- FindPartitions: the partitions of the given (queue, name) pairs that exist. Locks nothing.
select p.id, p.queue_id, p.name
from unnest($1::bigint[], $2::text[]) as i (queue_id, name)
join waggle.partition p on p.queue_id = i.queue_id and p.name = i.name
