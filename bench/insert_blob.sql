-- Called by each connection of the blobs yardstick, in a transaction of its own. Locks nothing but the new row.
insert into waggle_bench.segment (partition_id, base_offset, created_at, count, format, ids, body)
values ($1, $2, clock_timestamp(), $3, 1, $4, $5);
