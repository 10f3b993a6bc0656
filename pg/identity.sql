-- Which server a new connection reached: a change of either means failover or restore, and empties every cache.
select s.system_identifier::text, left(pg_walfile_name(pg_current_wal_lsn()), 8) from pg_control_system() s
