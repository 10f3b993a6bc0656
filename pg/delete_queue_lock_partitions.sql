-- DeleteQueue: waits for appends in flight; whoever comes after finds no row.
select p.id from waggle.partition p where p.queue_id = $1 order by p.id for update
