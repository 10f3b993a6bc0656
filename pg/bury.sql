-- AckSet: a dead letter, in the transaction that moves the cursor past its record.
insert into waggle.dead_letter (queue_id, partition_id, group_name, record_offset, message_id, transaction_id,
                                producer_sub, payload, error, retry_count, sealed)
values ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11)
