-- DeleteBuried: the dead letters of partition $1 of tenant $2 whose transaction id is $3 or message id $4. Locks them in
-- id order.
with found as materialized (
  select d.id from waggle.dead_letter d join waggle.queue q on q.id = d.queue_id
  where d.partition_id = $1 and q.tenant = $2 and (d.transaction_id = $3 or d.message_id = $4)
  order by d.id for update of d
)
delete from waggle.dead_letter d using found f where d.id = f.id
