-- QueueCounts: the counters of queues $1 as of the last pass. Locks nothing.
select queue_id, partitions, segments, messages, bytes, pending, processing, consumed
from waggle.queue_stat where queue_id = any ($1::bigint[])
