-- RollUpMetrics: the same for brokers.
insert into waggle.broker_metric (minutes, bucket, broker, samples, cpu_user_ms, cpu_system_ms, elapsed_ms, memory_bytes, pool_size, pool_idle, db_errors)
select 60, date_trunc('hour', bucket), broker, sum(samples), sum(cpu_user_ms), sum(cpu_system_ms), sum(elapsed_ms), sum(memory_bytes), sum(pool_size), sum(pool_idle), sum(db_errors)
from waggle.broker_metric
where minutes = 1 and bucket >= $1::timestamptz and bucket < $2::timestamptz
group by 2, broker
order by 2, broker
on conflict (minutes, bucket, broker) do update set
    samples = excluded.samples, cpu_user_ms = excluded.cpu_user_ms, cpu_system_ms = excluded.cpu_system_ms, elapsed_ms = excluded.elapsed_ms, memory_bytes = excluded.memory_bytes, pool_size = excluded.pool_size, pool_idle = excluded.pool_idle, db_errors = excluded.db_errors
