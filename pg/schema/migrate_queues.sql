-- Migration: queues that do not stand at the first record format.
select tenant, name, write_format, read_floor from waggle.queue
where write_format > 1 or read_floor > 1
order by tenant, name
