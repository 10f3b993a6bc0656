-- Apply: polled, never waited for. Session-level advisory lock (product, schema).
select pg_try_advisory_lock($1, $2)
