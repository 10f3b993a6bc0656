-- Cycle: keeps the query $1 of tenant $2 from being reset, and other cycles of the query and partition from writing at the
-- same time: they would lock keys in another order. Locks the query shared and one advisory key, last of all locks.
select pg_advisory_xact_lock(hashtextextended(q.id::text || ' ' || $3::bigint, 0))
from (select q.id from waggle.stream_query q where q.id = $1::uuid and q.tenant = $2::uuid for share) q
