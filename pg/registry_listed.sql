-- ListedBrokers: live brokers, and those that signed off within the last minute. Takes no row lock. $1 is how old, in
-- seconds, the last heartbeat of a live broker may be.
select start_id, name, version, http, mesh, system_needs, system_knows, record_knows, frame_min, frame_max, draining,
       left_at is not null
from waggle.broker
where (left_at is null and seen_at > clock_timestamp() - make_interval(secs => $1::float8))
   or left_at > clock_timestamp() - interval '1 minute'
order by name, start_id
