-- SeekGroup: moves the cursors of group $2 in a page of the partitions of queue $1, and makes those that are missing:
-- to the tail if $3, else just before the first segment created at or after $4, or to the tail where there is none.
-- Leases end, retries count from nothing. The page begins after the name $5, or with it if $6; at most $7 partitions,
-- only the one called $5 if $8. Leaves word for the statistics. Locks cursors in partition order, no partition: appends go on. Answers how many were
-- moved, how many partitions the page had, and the last name.
--
-- Times do not fall within a partition, so the segment is found by halving the offsets: high is a segment created at or
-- after the time, all that begin at or below low were created before it.
with recursive page as materialized (
  select p.id, p.name from waggle.partition p
  where p.queue_id = $1::bigint and p.name >= $5::text and (p.name <> $5::text or $6::boolean)
    and (not $8::boolean or p.name = $5::text)
  order by p.name limit $7::int
), ends as materialized (
  select p.id, coalesce(l.base_offset + l.count, 0) as next, f.base_offset as first, f.created_at as first_at,
         l.base_offset as last, l.created_at as last_at
  from page p
  left join lateral (select s.base_offset, s.created_at from waggle.segment s
                     where s.partition_id = p.id order by s.base_offset limit 1) f on not $3::boolean
  left join lateral (select s.base_offset, s.count, s.created_at from waggle.segment s
                     where s.partition_id = p.id order by s.base_offset desc limit 1) l on true
), halving as (
  select e.id, e.first as low, e.last as high
  from ends e where not $3::boolean and e.first_at < $4::timestamptz and e.last_at >= $4::timestamptz
  union all
  select h.id, case when m.created_at < $4::timestamptz then (h.low + h.high) / 2 else h.low end,
         case when m.created_at < $4::timestamptz then h.high else m.base_offset end
  from halving h
  cross join lateral (
    select s.base_offset, s.created_at from waggle.segment s
    where s.partition_id = h.id and s.base_offset <= (h.low + h.high) / 2
    order by s.base_offset desc limit 1
  ) m
  where h.high - h.low > 1
), targets as materialized (
  select e.id,
         case when $3::boolean or e.last_at is null or e.last_at < $4::timestamptz then e.next
              when e.first_at >= $4::timestamptz then e.first
              else h.high end - 1 as committed
  from ends e
  left join (select id, min(high) as high from halving group by id) h on h.id = e.id
), moved as (
  insert into waggle.cursor (partition_id, group_id, committed)
  select t.id, $2::bigint, t.committed from targets t order by t.id
  on conflict (partition_id, group_id) do update
  set committed = excluded.committed, batch_end = null, lease = null, lease_expires_at = null, attempt_offset = -1,
      attempt = 0, retry = 0
  returning partition_id
), told as (
  insert into waggle.touched (partition_id) select m.partition_id from moved m
)
select (select count(*) from moved), count(*), coalesce(max(name), '') from page
