-- FindStream: whether tenant $2 has the query $1. Locks nothing.
select exists (select from waggle.stream_query q where q.id = $1::uuid and q.tenant = $2::uuid)
