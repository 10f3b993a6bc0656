-- Fenced, second statement of every writing job transaction. Fails with WG0023 when a floor has been raised above what
-- this build knows ($1, $2). Answers who leads; FOR SHARE makes the next leader's bump wait for this transaction, so that
-- nothing of an old epoch is committed after a new one has begun. FOR KEY SHARE would not.
select case when g.system_floor > $1::int then ('WG0023 system floor ' || g.system_floor)::int end,
       case when g.record_floor > $2::int then ('WG0023 record floor ' || g.record_floor)::int end,
       l.epoch, l.start_id, left(pg_walfile_name(pg_current_wal_lsn()), 8) as timeline
from waggle.gate g, waggle.leader l
for share of l
