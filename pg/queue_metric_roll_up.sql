-- RollUpMetrics: sums the minutes of whole hours from $1 on, before $2, up into hours, anew where that was done before. Locks
-- what it writes.
insert into waggle.queue_metric (minutes, bucket, queue_id, broker,
    push_requests, push_messages, pop_requests, pop_messages, pop_empty, ack_requests,
    ack_success, ack_failed, transactions, partitions_created, dead_letters, expired,
    completed, evicted, retention_steps, lag_count, lag_sum_ms, lag_max_ms,
    parked, conflated)
select 60, date_trunc('hour', bucket), queue_id, broker,
    sum(push_requests), sum(push_messages), sum(pop_requests), sum(pop_messages), sum(pop_empty), sum(ack_requests),
    sum(ack_success), sum(ack_failed), sum(transactions), sum(partitions_created), sum(dead_letters), sum(expired),
    sum(completed), sum(evicted), sum(retention_steps), sum(lag_count), sum(lag_sum_ms), max(lag_max_ms),
    max(parked), sum(conflated)
from waggle.queue_metric
where minutes = 1 and bucket >= $1::timestamptz and bucket < $2::timestamptz
group by 2, queue_id, broker
order by 2, queue_id, broker
on conflict (minutes, bucket, queue_id, broker) do update set
    push_requests = excluded.push_requests, push_messages = excluded.push_messages, pop_requests = excluded.pop_requests,
    pop_messages = excluded.pop_messages, pop_empty = excluded.pop_empty, ack_requests = excluded.ack_requests,
    ack_success = excluded.ack_success, ack_failed = excluded.ack_failed, transactions = excluded.transactions,
    partitions_created = excluded.partitions_created, dead_letters = excluded.dead_letters, expired = excluded.expired,
    completed = excluded.completed, evicted = excluded.evicted, retention_steps = excluded.retention_steps,
    lag_count = excluded.lag_count, lag_sum_ms = excluded.lag_sum_ms, lag_max_ms = excluded.lag_max_ms,
    parked = excluded.parked, conflated = excluded.conflated
