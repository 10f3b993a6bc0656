-- Called before and after each side. Locks nothing. The first number rises by one with each transaction that writes,
-- at once; the statistics views would lag by up to a second.
select pg_snapshot_xmax(pg_current_snapshot())::text::bigint, pg_wal_lsn_diff(pg_current_wal_lsn(), '0/0')::bigint;
