-- Flush (c), second half: claims partitions for pops. One input row a candidate, the candidates of a pop together and
-- in the order in which its batch is filled. Cursors are locked in (partition, group) order with SKIP LOCKED. A cursor
-- named twice is given to the first; callers hand out candidates disjointly, but may have forgotten one.
-- Answers one row a candidate without segments, or one row a segment of what was claimed: outcome 0 claimed, 1 empty,
-- 2 leased (remaining = ms until the lease ends), 3 locked, 4 no cursor row, 5 the queue's options differ or the
-- queue is gone, 6 not yet visible (remaining = ms until it may be), 7 beyond what the pop or the flush may take.
-- A pop takes at most $15 bytes of records (or one segment), a flush $16.
-- Bodies and ids of segments with a base in [cached_from, cached_to) are left out.
-- flags: 1 autoAck, 2 the lease needs a row, 4 conflation: only the newest visible record is given, and the lease holds
-- everything from the cursor to it.
-- Records up to repeated have been handed out before: attempt counts that, for the others it is the first time.
-- Nothing here joins one list of the input with another: it takes as long as the input is.
with input as materialized (
  select * from unnest($1::bigint[], $2::bigint[], $3::bigint[], $4::bigint[], $5::int[], $6::uuid[], $7::int[], $8::int[],
                       $9::int[], $10::int[], $11::int[], $12::int[], $13::bigint[], $14::bigint[])
    with ordinality as i (partition_id, group_id, queue_id, version, pop, lease, lease_seconds, batch,
                          partitions, delay, quiet, flags, cached_from, cached_to, ord)
), locked as materialized (
  select i.*, c.id, c.committed, c.lease as held_lease, c.lease_expires_at, c.attempt_offset, c.attempt
  from input i
  join waggle.cursor c on c.partition_id = i.partition_id and c.group_id = i.group_id
  order by c.partition_id, c.group_id
  for no key update of c skip locked
), seen as materialized (
  select l.*, a.start, l.flags & 4 <> 0 as newest_only, n.base_offset + n.count - 1 as newest,
         q.version is distinct from l.version as stale,
         l.held_lease is not null and l.lease_expires_at > clock_timestamp() as leased,
         row_number() over (partition by l.id order by l.ord) > 1 as twice,
         case when w.quiet_until > clock_timestamp() then w.quiet_until end as quiet_until,
         case when w.quiet_until > clock_timestamp() then -1
              when l.delay > 0 then (
                select s.base_offset + s.count - 1 from waggle.segment s
                where s.partition_id = l.partition_id
                  and s.base_offset < case when l.flags & 4 <> 0 then 9223372036854775807 else a.start + l.batch end
                  and s.base_offset >= coalesce((select max(b.base_offset) from waggle.segment b
                                                 where b.partition_id = l.partition_id and b.base_offset <= a.start), 0)
                  and s.created_at <= clock_timestamp() - make_interval(secs => l.delay)
                order by s.base_offset desc limit 1)
              else n.base_offset + n.count - 1 end as visible
  from locked l
  left join waggle.queue q on q.id = l.queue_id
  left join waggle.log_start f on f.partition_id = l.partition_id
  left join lateral (
    select s.base_offset, s.count, s.created_at from waggle.segment s
    where s.partition_id = l.partition_id order by s.base_offset desc limit 1
  ) n on true
  cross join lateral (select greatest(l.committed + 1, coalesce(f.live_offset, 0)) as start) a
  cross join lateral (select case when l.quiet > 0 then n.created_at + make_interval(secs => l.quiet) end as quiet_until) w
), offered as materialized (
  select s.*,
         case when s.newest_only and s.visible > s.start then s.visible else s.start end as first,
         case when s.stale or s.leased or s.twice or s.visible is null or s.visible < s.start then 0
              when s.newest_only then 1
              else s.visible - s.start + 1 end as available
  from seen s
), filled as materialized (
  select o.*,
         least(o.available, o.batch - coalesce(sum(o.available) over before, 0)::bigint) as take,
         count(*) filter (where o.available > 0) over before as claimed_before
  from offered o
  window before as (partition by o.pop order by o.ord rows between unbounded preceding and 1 preceding)
), sized as materialized (
  select f.ord, f.pop, f.id, f.first, f.take, f.newest, f.lease, f.lease_seconds, f.flags,
         f.attempt_offset as repeated, case when f.attempt_offset >= f.first then f.attempt + 1 else 1 end as new_attempt,
         s.base_offset, s.count, s.created_at, s.format, s.size,
         s.base_offset >= f.cached_from and s.base_offset < f.cached_to as cached, s.ids, s.body,
         sum(s.size::bigint) over by_pop as pop_bytes, row_number() over by_pop as pop_row
  from filled f
  cross join lateral (
    select s.base_offset, s.count, s.created_at, s.format, s.size, s.ids, s.body
    from waggle.segment s
    where s.partition_id = f.partition_id and s.base_offset < f.first + f.take
      and s.base_offset >= coalesce((select max(b.base_offset) from waggle.segment b
                                     where b.partition_id = f.partition_id and b.base_offset <= f.first), 0)
    order by s.base_offset
  ) s
  where f.take > 0 and (f.partitions <= 0 or f.claimed_before < f.partitions)
  window by_pop as (partition by f.pop order by f.ord, s.base_offset)
), fitting as materialized (
  select s.*, sum(s.size::bigint) over by_flush as flush_bytes, row_number() over by_flush as flush_row
  from sized s
  where s.pop_row = 1 or s.pop_bytes <= $15::bigint
  window by_flush as (order by s.ord, s.base_offset)
), given as materialized (
  select f.*, row_number() over (partition by f.ord order by f.base_offset) as nth,
         least(f.first + f.take, max(f.base_offset + f.count) over (partition by f.ord)) - 1 as last
  from fitting f
  where f.flush_row = 1 or f.flush_bytes <= $16::bigint
), claimed as (
  update waggle.cursor c
  set committed = case when g.flags & 1 <> 0 then g.last else c.committed end,
      batch_end = case when g.flags & 1 <> 0 then null else g.last end,
      lease = case when g.flags & 1 <> 0 then null else g.lease end,
      lease_expires_at = case when g.flags & 1 <> 0 then null else clock_timestamp() + make_interval(secs => g.lease_seconds) end,
      attempt_offset = greatest(c.attempt_offset, g.last),
      attempt = g.new_attempt,
      retry = case when g.flags & 1 <> 0 then 0 else c.retry end
  from given g
  where g.nth = 1 and c.id = g.id
), leases as (
  insert into waggle.lease (id, cursor_ids, expires_at)
  select g.lease, array_agg(g.id), max(clock_timestamp() + make_interval(secs => g.lease_seconds))
  from given g where g.nth = 1 and g.flags & 3 = 2
  group by g.lease
)
select g.ord::int - 1 as candidate, 0 as outcome, g.id as cursor_id, g.first, g.last, g.newest, g.new_attempt as attempt,
       g.repeated, 0::bigint as remaining, g.base_offset, g.count, g.created_at, g.format,
       case when not g.cached then g.ids end as ids, case when not g.cached then g.body end as body
from given g
union all
select f.ord::int - 1,
       case when f.stale then 5
            when f.leased then 2
            when f.twice then 3
            when f.available > 0 then 7
            when f.newest >= f.first then 6
            else 1 end,
       f.id, -1, -1, coalesce(f.newest, -1), 0, -1,
       case when f.leased then ceil(extract(epoch from f.lease_expires_at - clock_timestamp()) * 1000)
            when f.quiet_until is not null then ceil(extract(epoch from f.quiet_until - clock_timestamp()) * 1000)
            when f.newest >= f.first and f.delay > 0 then (
              select ceil(extract(epoch from s.created_at + make_interval(secs => f.delay) - clock_timestamp()) * 1000)
              from waggle.segment s
              where s.partition_id = f.partition_id and s.base_offset + s.count > f.first
                and s.base_offset >= coalesce((select max(b.base_offset) from waggle.segment b
                                               where b.partition_id = f.partition_id and b.base_offset <= f.first), 0)
              order by s.base_offset limit 1)
            else 0 end::bigint,
       null, null, null, null, null, null
from filled f
where f.ord not in (select g.ord from given g)
union all
select i.ord::int - 1,
       case when exists (select from waggle.cursor c where c.partition_id = i.partition_id and c.group_id = i.group_id)
            then 3 else 4 end,
       0, -1, -1, -1, 0, -1, 0, null, null, null, null, null, null
from input i
where i.ord not in (select l.ord from locked l)
order by candidate, base_offset
