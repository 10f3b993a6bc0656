-- OpenSession, and Fenced to find out once: has the server look every $1 ms whether the client of a running statement is
-- still there. Servers on some systems refuse it. $2: for this transaction only. Locks nothing.
select set_config('client_connection_check_interval', $1::text, $2::boolean)
