-- ReplayDeadLetter: removes the dead letter $1, if it is still there, in the transaction that appends it anew. Locks its row.
delete from waggle.dead_letter where id = $1::bigint returning id
