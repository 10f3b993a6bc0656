-- For looking up what a group gave up of a partition: burying a record again, and the state of a message.
create index concurrently if not exists dead_letter_record on waggle.dead_letter (partition_id, record_offset, group_name)
