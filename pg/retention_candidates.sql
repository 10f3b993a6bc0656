-- Retention.Run: the partitions after $1, a page of $2, and those among them where a rule seems to apply. The rules
-- stand in parallel arrays by queue ($3): seconds of retention ($4), completed ($5), maximum wait ($6), null = none.
-- Only a look at the first segment with a body decides, so an idle partition costs one index probe; the step decides
-- again under the lock. Locks nothing.
with page as materialized (
  select p.id, p.queue_id from waggle.partition p where p.id > $1::bigint order by p.id limit $2::int
), rule as materialized (
  select r.queue_id, c.now - make_interval(secs => r.retention) as retention,
         c.now - make_interval(secs => r.completed) as completed, c.now - make_interval(secs => r.max_wait) as max_wait
  from unnest($3::bigint[], $4::float8[], $5::float8[], $6::float8[]) as r (queue_id, retention, completed, max_wait),
       (select clock_timestamp() as now) c
), due as materialized (
  select p.id, p.queue_id
  from page p
  join rule r on r.queue_id = p.queue_id
  cross join lateral (
    select s.base_offset, s.base_offset + s.count - 1 as last, s.created_at
    from waggle.segment s
    where s.partition_id = p.id
      and s.base_offset >= coalesce((select l.live_offset from waggle.log_start l where l.partition_id = p.id), 0)
    order by s.base_offset limit 1
  ) f
  where f.created_at < r.retention
     or f.created_at < greatest(r.completed, r.max_wait) and (
       select case
         when f.last <= u.upto then f.created_at < r.completed or (
           select w.created_at < r.max_wait and w.base_offset + w.count - 1 > u.upto from waggle.segment w
           where w.partition_id = p.id and w.base_offset <= u.upto + 1 order by w.base_offset desc limit 1)
         else f.created_at < r.max_wait end
       from (
         select case when not exists (
                  select from waggle.consumer_group g
                  where g.queue_id = p.queue_id and g.registered_at is not null and not exists (
                    select from waggle.cursor k where k.partition_id = p.id and k.group_id = g.id)
                ) then min(c.committed) end as upto
         from waggle.cursor c where c.partition_id = p.id
       ) u)
)
select (select count(*) from page), coalesce((select max(id) from page), 0),
       array(select id from due order by id), array(select queue_id from due order by id)
