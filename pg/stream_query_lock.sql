-- RegisterStream: locks the query of the name, if there is one.
select q.id, q.config_hash from waggle.stream_query q where q.tenant = $1::uuid and q.name = $2::text for update
