-- Cycle: stores values of distinct keys, under the locks of stream_query_hold.sql.
insert into waggle.stream_state (query_id, partition_id, key, value, window_end)
select $1::uuid, $2::bigint, i.key, i.value, i.window_end
from unnest($3::bytea[], $4::bytea[], $5::double precision[]) as i (key, value, window_end)
on conflict (query_id, partition_id, key)
do update set value = excluded.value, window_end = excluded.window_end, updated_at = clock_timestamp()
