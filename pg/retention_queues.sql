-- Retention.Run: queues whose options may ask for retention. Go decides what the options mean. Locks nothing.
select id, tenant, name, version, options
from waggle.queue
where options -> 'retentionEnabled' = 'true'::jsonb
   or coalesce(options -> 'maxWaitTimeSeconds', '0'::jsonb) not in ('0'::jsonb, 'null'::jsonb)
order by id
