-- AckSet: a dead letter, in the transaction that moves the cursor past its record. A record that is buried again, after a
-- seek backwards, keeps its row and gets the new reason. The caller holds the cursor of this partition and group, so nobody
-- else buries the same record meanwhile.
with again as (
  update waggle.dead_letter
  set payload = $8, error = $9, retry_count = $10, sealed = $11, pushed_at = $12, failed_at = clock_timestamp()
  where partition_id = $2::bigint and group_name = $3::text and record_offset = $4::bigint
  returning id
)
insert into waggle.dead_letter (queue_id, partition_id, group_name, record_offset, message_id, transaction_id,
                                producer_sub, payload, error, retry_count, sealed, pushed_at)
select $1::bigint, $2::bigint, $3::text, $4::bigint, $5::uuid, $6::text, $7::text, $8::bytea, $9::bytea, $10::int, $11::boolean, $12::timestamptz
where not exists (select from again)
