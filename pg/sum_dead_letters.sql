-- SumDeadLetters: how many dead letters queues $1 have, in how many partitions, and the ten most frequent reasons among the newest
-- $2. Locks nothing.
with errors as (
  select n.error, count(*) as n
  from (
    select substr(d.error, 1, 500) as error from waggle.dead_letter d
    where d.queue_id = any ($1::bigint[]) order by d.failed_at desc, d.id desc limit $2::int
  ) n
  group by 1 order by 2 desc, 1 limit 10
)
select (select count(*) from waggle.dead_letter d where d.queue_id = any ($1::bigint[])),
       (select count(distinct d.partition_id) from waggle.dead_letter d where d.queue_id = any ($1::bigint[])),
       coalesce((select array_agg(e.error order by e.n desc, e.error) from errors e), '{}'),
       coalesce((select array_agg(e.n order by e.n desc, e.error) from errors e), '{}')
