-- Called once. Locks nothing.
select current_setting('server_version'), pg_backend_pid();
