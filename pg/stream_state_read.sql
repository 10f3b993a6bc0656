-- StreamState: the rows of a query's partition, in the order of their keys; only those of keys $3, with prefix $4, and with
-- a window end up to $5, where these are not null. At most $6. Locks nothing.
select s.key, s.value, s.updated_at
from waggle.stream_state s
where s.query_id = $1::uuid and s.partition_id = $2::bigint
  and ($3::bytea[] is null or s.key = any ($3::bytea[]))
  and ($4::bytea is null or s.key >= $4::bytea and substring(s.key for length($4::bytea)) = $4::bytea)
  and ($5::double precision is null or s.window_end <= $5::double precision)
order by s.key limit $6::int
