-- Fenced.CleanDeadLetters: deletes dead letters older than the option of their queue says, or else than $1 s (0 for never), at most $2,
-- those of one queue after the other and the oldest of each first. Visits each queue that has any once, and what is deleted; skips letters that somebody is replaying.
-- Locks the rows that it deletes.
with recursive queues as (
  (select d.queue_id from waggle.dead_letter d order by d.queue_id limit 1)
  union all
  select (select d.queue_id from waggle.dead_letter d where d.queue_id > q.queue_id order by d.queue_id limit 1)
  from queues q where q.queue_id is not null
), old as materialized (
  select o.id
  from queues q
  left join waggle.queue w on w.id = q.queue_id
  cross join lateral (
    select case when jsonb_typeof(w.options -> 'deadLetterRetentionSeconds') = 'number'
                then (w.options ->> 'deadLetterRetentionSeconds')::float8 end as seconds
  ) own
  cross join lateral (
    select d.id from waggle.dead_letter d
    where d.queue_id = q.queue_id
      and d.failed_at < clock_timestamp() - make_interval(secs => coalesce(nullif(own.seconds, 0), nullif($1::float8, 0)))
    order by d.failed_at, d.id limit $2::int
  ) o
  where q.queue_id is not null
  limit $2::int
), held as materialized (
  select d.id from waggle.dead_letter d join old o on o.id = d.id for update of d skip locked
)
delete from waggle.dead_letter d using held h where d.id = h.id
