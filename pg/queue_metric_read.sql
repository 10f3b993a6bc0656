-- QueueSeries: sums of the rows of $1 minutes from $2 to $3 in buckets of $4 minutes, of tenant $5 (null: all), queue $6, namespace
-- $7 and task $8 where given; by queue if $9 and by broker if $10, else of all. Locks nothing.
with rows as (
  select * from waggle.queue_metric
  where minutes = $1::smallint and bucket >= $2::timestamptz and bucket < $3::timestamptz
  union all -- what has not been summed up yet
  select * from waggle.queue_metric
  where $1::smallint = 60 and minutes = 1 and bucket < $3::timestamptz and bucket >= greatest($2::timestamptz, coalesce(
    (select max(r.bucket) + interval '1 hour' from waggle.queue_metric r where r.minutes = 60), '-infinity'))
)
select date_bin(make_interval(mins => $4::int), m.bucket, 'epoch'), case when $9::boolean then q.name else '' end,
    case when $10::boolean then m.broker else '' end,
    sum(m.push_requests)::bigint, sum(m.push_messages)::bigint, sum(m.pop_requests)::bigint, sum(m.pop_messages)::bigint,
    sum(m.pop_empty)::bigint, sum(m.ack_requests)::bigint, sum(m.ack_success)::bigint, sum(m.ack_failed)::bigint,
    sum(m.transactions)::bigint, sum(m.partitions_created)::bigint, sum(m.dead_letters)::bigint, sum(m.expired)::bigint,
    sum(m.completed)::bigint, sum(m.evicted)::bigint, sum(m.retention_steps)::bigint, sum(m.lag_count)::bigint,
    sum(m.lag_sum_ms)::bigint, max(m.lag_max_ms)::bigint, max(m.parked)::bigint,
    sum(m.conflated)::bigint
from rows m
join waggle.queue q on q.id = m.queue_id
where ($5::uuid is null or q.tenant = $5::uuid) and ($6::text is null or q.name = $6::text)
  and ($7::text is null or q.namespace = $7::text) and ($8::text is null or q.task = $8::text)
group by 1, 2, 3
order by 1 desc, 2, 3
