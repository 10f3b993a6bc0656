-- RegisterStream: gives the locked query $1 another configuration.
update waggle.stream_query
set source_queue = $2::text, sink_queue = $3::text, config_hash = $4::text, updated_at = clock_timestamp()
where id = $1::uuid
