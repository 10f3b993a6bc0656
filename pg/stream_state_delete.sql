-- Cycle: deletes keys, under the locks of stream_query_hold.sql.
delete from waggle.stream_state where query_id = $1::uuid and partition_id = $2::bigint and key = any ($3::bytea[])
