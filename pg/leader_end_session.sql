-- DB.EndLeaderSession: ends the backend ($1 pid, $2 backend_start) of the leader of epoch $3 and start id $4, if it is of
-- our own role and in this database, the row still names it, and its leader has not stamped itself for $5 ms. A pid alone
-- could by now be somebody else's. Locks nothing.
select pg_terminate_backend(a.pid)
from waggle.leader l
join waggle.leader_seen s on s.epoch = l.epoch
join pg_stat_activity a on a.pid = l.pid and a.backend_start = l.backend_start
where a.pid = $1::int and a.backend_start = $2::timestamptz and l.epoch = $3::bigint and l.start_id = $4::uuid
  and a.usename = current_user and a.datname = current_database()
  and s.seen_at < clock_timestamp() - make_interval(secs => $5::float8 / 1000)
