-- BrokerSeries: sums of the rows of $1 minutes from $2 to $3 in buckets of $4 minutes, by broker. Locks nothing.
with rows as (
  select * from waggle.broker_metric
  where minutes = $1::smallint and bucket >= $2::timestamptz and bucket < $3::timestamptz
  union all -- what has not been summed up yet
  select * from waggle.broker_metric
  where $1::smallint = 60 and minutes = 1 and bucket < $3::timestamptz and bucket >= greatest($2::timestamptz, coalesce(
    (select max(r.bucket) + interval '1 hour' from waggle.broker_metric r where r.minutes = 60), '-infinity'))
)
select date_bin(make_interval(mins => $4::int), bucket, 'epoch'), broker, sum(samples)::bigint, sum(cpu_user_ms)::bigint, sum(cpu_system_ms)::bigint, sum(elapsed_ms)::bigint, sum(memory_bytes)::bigint, sum(pool_size)::bigint, sum(pool_idle)::bigint, sum(db_errors)::bigint
from rows
group by 1, 2
order by 1 desc, 2
