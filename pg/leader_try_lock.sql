-- LeaderSession.TryLock, each try of a campaign. Takes the advisory lock ($1, $2) if it is free and never waits. The
-- lock function stands in a materialized row of its own, so that no plan can call it twice: such locks stack.
-- led: the row names a leader that has stamped itself within $3 ms.
with tried as materialized (select pg_try_advisory_lock($1::int, $2::int) as won)
select t.won,
       coalesce(l.start_id is not null and s.epoch = l.epoch
                and s.seen_at > clock_timestamp() - make_interval(secs => $3::float8 / 1000), false) as led
from tried t
left join waggle.leader l on true
left join waggle.leader_seen s on true
