-- After a connection broke in the commit of transaction $1 (recover): whether this is still the server it ran on, and
-- what became of it: committed, aborted, in progress.
select s.system_identifier::text, left(pg_walfile_name(pg_current_wal_lsn()), 8), pg_xact_status($1::text::xid8)
from pg_control_system() s
