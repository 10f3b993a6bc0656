-- CleanMetrics: deletes up to $2 rows of each kind that are older than $1 seconds. Locks them.
with queues as (
  delete from waggle.queue_metric m using (
    select minutes, bucket, queue_id, broker from waggle.queue_metric
    where minutes in (1, 60) and bucket < clock_timestamp() - make_interval(secs => $1::float8)
    order by minutes, bucket limit $2::int
  ) o
  where m.minutes = o.minutes and m.bucket = o.bucket and m.queue_id = o.queue_id and m.broker = o.broker
  returning 1
), brokers as (
  delete from waggle.broker_metric m using (
    select minutes, bucket, broker from waggle.broker_metric
    where minutes in (1, 60) and bucket < clock_timestamp() - make_interval(secs => $1::float8)
    order by minutes, bucket limit $2::int
  ) o
  where m.minutes = o.minutes and m.bucket = o.bucket and m.broker = o.broker
  returning 1
)
select (select count(*) from queues) + (select count(*) from brokers)
