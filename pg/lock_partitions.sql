-- SeedCursors: keeps partitions from being deleted while cursors are added to them; in id order.
select p.id from waggle.partition p where p.id = any ($1::bigint[]) order by p.id for key share
