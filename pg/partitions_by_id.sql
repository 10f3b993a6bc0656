-- PartitionsByID: locks nothing.
select p.id, p.queue_id, p.name from waggle.partition p where p.id = any ($1::bigint[])
