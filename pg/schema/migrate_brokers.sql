-- Migration: who lives, and what each build needs and knows. Share lock on the registry only. $1 is how old, in seconds, the
-- last heartbeat of a live broker may be.
select name, version, system_needs, system_knows, record_knows,
  extract(epoch from clock_timestamp() - seen_at)::float8
from waggle.broker
where left_at is null and seen_at > clock_timestamp() - make_interval(secs => $1::float8)
order by name, start_id
