-- DB.ReadLeader, for those who want to show who leads. No row when nobody does, or when whoever did has not stamped
-- itself for $1 ms by this server's clock. Locks nothing.
select l.epoch, l.start_id, l.name, l.since, s.seen_at
from waggle.leader l join waggle.leader_seen s on s.epoch = l.epoch
where l.start_id is not null and s.seen_at > clock_timestamp() - make_interval(secs => $1::float8 / 1000)
