-- WriteMetrics: adds how broker $1 is to its row of this minute; levels are sums over samples. Locks it.
insert into waggle.broker_metric as m (minutes, bucket, broker, samples, cpu_user_ms, cpu_system_ms, elapsed_ms, memory_bytes, pool_size, pool_idle, db_errors)
values (1, date_trunc('minute', clock_timestamp()), $1::text, 1, $2::bigint, $3::bigint, $4::bigint, $5::bigint, $6::bigint, $7::bigint, $8::bigint)
on conflict (minutes, bucket, broker) do update set
    samples = m.samples + excluded.samples, cpu_user_ms = m.cpu_user_ms + excluded.cpu_user_ms, cpu_system_ms = m.cpu_system_ms + excluded.cpu_system_ms, elapsed_ms = m.elapsed_ms + excluded.elapsed_ms, memory_bytes = m.memory_bytes + excluded.memory_bytes, pool_size = m.pool_size + excluded.pool_size, pool_idle = m.pool_idle + excluded.pool_idle, db_errors = m.db_errors + excluded.db_errors
