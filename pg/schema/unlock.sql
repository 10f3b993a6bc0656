-- Apply: on every path out.
select pg_advisory_unlock($1, $2)
