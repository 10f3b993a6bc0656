-- Flush of a partition that was skipped too often: it may wait for the lock, but not hold its connection for ever.
select set_config('lock_timeout', '2s', true)
