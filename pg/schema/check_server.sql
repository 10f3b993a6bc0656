-- CheckServer: before anything else on a database. Takes no locks.
select current_setting('server_version_num')::int, current_setting('server_version'), pg_is_in_recovery(),
  current_setting('transaction_read_only')::bool
