-- RegisterStream: deletes the state of the locked query $1. Cycles hold the query while they write.
delete from waggle.stream_state where query_id = $1::uuid
