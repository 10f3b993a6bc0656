-- DeleteDeadLetters: up to $4 dead letters of the queue $2 of tenant $1, of group $3 where given, oldest first. Locks
-- them in that order.
with found as materialized (
  select d.id from waggle.queue q join waggle.dead_letter d on d.queue_id = q.id
  where q.tenant = $1 and q.name = $2 and ($3::text is null or d.group_name = $3)
  order by d.failed_at, d.id limit $4 for update of d
)
delete from waggle.dead_letter d using found f where d.id = f.id
