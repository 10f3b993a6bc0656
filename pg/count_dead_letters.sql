-- CountDeadLetters: how many dead letters each of the queues $1 has; queues without any are left out. Locks nothing.
select d.queue_id, count(*) from waggle.dead_letter d where d.queue_id = any ($1::bigint[]) group by 1
