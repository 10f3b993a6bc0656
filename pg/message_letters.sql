-- MessageLetters: the offsets in [$2, $3) of partitions $1 that a group gave up. Locks nothing.
select d.partition_id, d.record_offset
from unnest($1::bigint[], $2::bigint[], $3::bigint[]) as i (partition_id, low, high)
join waggle.dead_letter d on d.partition_id = i.partition_id and d.record_offset >= i.low and d.record_offset < i.high
