-- WriteMetrics: adds what broker $1 did for queues since its last call to the rows of this minute. Locks them, in queue order.
insert into waggle.queue_metric as m (minutes, bucket, queue_id, broker,
    push_requests, push_messages, pop_requests, pop_messages, pop_empty, ack_requests,
    ack_success, ack_failed, transactions, partitions_created, dead_letters, expired,
    completed, evicted, retention_steps, lag_count, lag_sum_ms, lag_max_ms,
    parked, conflated)
select 1, date_trunc('minute', clock_timestamp()), n.queue_id, $1::text,
    n.v[1], n.v[2], n.v[3], n.v[4], n.v[5], n.v[6], n.v[7], n.v[8], n.v[9], n.v[10],
    n.v[11], n.v[12], n.v[13], n.v[14], n.v[15], n.v[16], n.v[17], n.v[18], n.v[19], n.v[20]
from (
  select q.id as queue_id, ($3::bigint[])[(q.ord - 1) * 20 + 1:q.ord * 20] as v
  from unnest($2::bigint[]) with ordinality as q (id, ord)
) n
order by n.queue_id
on conflict (minutes, bucket, queue_id, broker) do update set
    push_requests = m.push_requests + excluded.push_requests,
    push_messages = m.push_messages + excluded.push_messages,
    pop_requests = m.pop_requests + excluded.pop_requests,
    pop_messages = m.pop_messages + excluded.pop_messages,
    pop_empty = m.pop_empty + excluded.pop_empty,
    ack_requests = m.ack_requests + excluded.ack_requests,
    ack_success = m.ack_success + excluded.ack_success,
    ack_failed = m.ack_failed + excluded.ack_failed,
    transactions = m.transactions + excluded.transactions,
    partitions_created = m.partitions_created + excluded.partitions_created,
    dead_letters = m.dead_letters + excluded.dead_letters,
    expired = m.expired + excluded.expired,
    completed = m.completed + excluded.completed,
    evicted = m.evicted + excluded.evicted,
    retention_steps = m.retention_steps + excluded.retention_steps,
    lag_count = m.lag_count + excluded.lag_count,
    lag_sum_ms = m.lag_sum_ms + excluded.lag_sum_ms,
    lag_max_ms = greatest(m.lag_max_ms, excluded.lag_max_ms),
    parked = greatest(m.parked, excluded.parked),
    conflated = m.conflated + excluded.conflated
