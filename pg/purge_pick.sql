-- Fenced.Purge: takes up to $1 partitions of deleted queues, skipping those that another run has taken. Locks their
-- purge rows; the partition rows are gone, so no append can be in flight.
select partition_id from waggle.purge order by partition_id limit $1::int for update skip locked
