-- ChangedPartitions: how many segments were written at or after $1, as far as $2. Locks nothing.
select count(*) from (select from waggle.segment s where s.created_at >= $1::timestamptz limit $2::int) c
