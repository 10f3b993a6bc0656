-- DB.LeaderBackend, for brokers whose mesh has given somebody up. Which backend the leader row names, and for how many
-- seconds its leader has not stamped itself, by this server's clock. No row when nobody leads. Locks nothing.
select l.epoch, l.start_id, l.name, l.pid, l.backend_start,
       extract(epoch from clock_timestamp() - s.seen_at)::float8 as unseen
from waggle.leader l join waggle.leader_seen s on s.epoch = l.epoch
where l.start_id is not null
