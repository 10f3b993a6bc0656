-- DeleteQueue, last: what hangs on the queue itself.
with letters as (delete from waggle.dead_letter where queue_id = $1),
     groups as (delete from waggle.consumer_group where queue_id = $1),
     sums as (delete from waggle.queue_stat where queue_id = $1)
delete from waggle.queue where id = $1
