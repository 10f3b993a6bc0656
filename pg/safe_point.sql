-- SafePoint: no segment stamped before this can still become visible. Read before, and outside the snapshot of, the
-- scan that it bounds. Every stamp lies after the start of a transaction of our role, in this database, that has an xid.
select least(clock_timestamp(), min(a.xact_start)) - interval '1 second', clock_timestamp()
from pg_stat_activity a where a.usename = current_user and a.datname = current_database() and a.backend_xid is not null
