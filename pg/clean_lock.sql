-- Partitions.Clean: locks those of partitions $1 that nobody is writing to, against appends and all that follows them. A statement of
-- its own, because only the next one sees what an append has left.
select p.id from waggle.partition p where p.id = any ($1::bigint[]) order by p.id for update skip locked
