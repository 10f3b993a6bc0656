-- The pooler test (ProvePrivate), before any setting or lock: which backend serves this connection. Locks nothing.
select pg_backend_pid()
