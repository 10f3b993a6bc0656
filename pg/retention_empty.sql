-- Retention.step, after retention_lock: takes the first segments with a body of partition $1 (queue $2) that any rule
-- gives up: older than $3 s; or older than $4 s and consumed by all groups; or older than $5 s while something that old
-- is not consumed. Times rise within a partition, so that is a prefix of the log. At most $7 segments, and no more once
-- $8 bytes of bodies are reached; nothing when the queue's options are no longer those of version $9.
-- Rows older than $6 s are deleted, except the partition's last one; of the others only the body goes: their ids are
-- still needed. Then raises log_start, and moves cursors that have fallen behind it and have no live lease.
-- What the counters of the partition include of it is noted there, under the lock that statistics_lock took.
-- Locks segment rows (only retention writes them), log_start, then cursors in group order; a cursor that somebody
-- holds is skipped: claims go past log_start by themselves.
with clock as materialized (
  select clock_timestamp() as now
), rule as materialized (
  select c.now - make_interval(secs => $3::float8) as retention, c.now - make_interval(secs => $4::float8) as completed,
         c.now - make_interval(secs => $5::float8) as max_wait, c.now - make_interval(secs => $6::float8) as ids
  from clock c
), start as materialized (
  select coalesce((select l.live_offset from waggle.log_start l where l.partition_id = $1::bigint), 0) as live,
         (select s.base_offset from waggle.segment s where s.partition_id = $1::bigint order by s.base_offset desc limit 1) as newest
), consumed as materialized (
  -- A registered group without a cursor here has consumed nothing. A partition without cursors keeps its data.
  select case when not exists (
           select from waggle.consumer_group g
           where g.queue_id = $2::bigint and g.registered_at is not null and not exists (
             select from waggle.cursor k where k.partition_id = $1::bigint and k.group_id = g.id)
         ) then min(c.committed) end as upto
  from waggle.cursor c where c.partition_id = $1::bigint
), waiting as materialized (
  -- The first segment that somebody has not consumed.
  select w.created_at
  from start a, consumed u, lateral (
    select s.base_offset + s.count - 1 as last, s.created_at
    from waggle.segment s
    where s.partition_id = $1::bigint and s.base_offset <= greatest(coalesce(u.upto, -1) + 1, a.live)
    order by s.base_offset desc limit 1
  ) w
  where w.last > coalesce(u.upto, -1)
), first as materialized (
  select s.base_offset, s.base_offset + s.count - 1 as last, s.created_at,
         coalesce(octet_length(s.body), 0)::bigint as bytes
  from start a, lateral (
    select n.base_offset, n.count, n.created_at, n.body
    from waggle.segment n
    where n.partition_id = $1::bigint and n.base_offset >= a.live
    order by n.base_offset limit $7::int
  ) s
), due as materialized (
  select f.*, sum(f.bytes) over (order by f.base_offset) - f.bytes as before
  from first f, rule r, consumed u
  where (f.created_at < r.retention
         or f.created_at < r.completed and f.last <= u.upto
         or f.created_at < r.max_wait and (select w.created_at from waiting w) < r.max_wait)
    and exists (select from waggle.queue q where q.id = $2::bigint and q.version = $9::bigint)
), taken as materialized (
  select d.base_offset, d.last, d.bytes, d.last - d.base_offset + 1 as messages,
         case when d.created_at < r.retention then 1 when d.created_at < r.completed and d.last <= u.upto then 2 else 3 end as cause,
         d.created_at < r.ids and d.base_offset <> a.newest as forget
  from due d, rule r, start a, consumed u
  where d.before < $8::bigint
), deleted as (
  delete from waggle.segment s using taken t
  where s.partition_id = $1::bigint and s.base_offset = t.base_offset and t.forget
  returning 1
), emptied as (
  update waggle.segment s set body = null from taken t
  where s.partition_id = $1::bigint and s.base_offset = t.base_offset and not t.forget
  returning 1
), raised as (
  insert into waggle.log_start as l (partition_id, live_offset)
  select $1::bigint, max(t.last) + 1 from taken t having count(*) > 0
  on conflict (partition_id) do update set live_offset = greatest(l.live_offset, excluded.live_offset)
), noted as (
  -- The count that comes next sees to what is not counted yet, and to all where the counters know another start.
  update waggle.partition_stat s
  set gone_segments = s.gone_segments + c.segments, gone_messages = s.gone_messages + c.messages,
      gone_bytes = s.gone_bytes + c.bytes, start = greatest(s.start, c.upto)
  from (
    select count(*) filter (where t.base_offset < n.next) as segments,
           coalesce(sum(t.messages) filter (where t.base_offset < n.next), 0)::bigint as messages,
           coalesce(sum(t.bytes) filter (where t.base_offset < n.next), 0)::bigint as bytes, max(t.last) + 1 as upto
    from taken t, waggle.partition_stat n where n.partition_id = $1::bigint
    having count(*) > 0
  ) c
  where s.partition_id = $1::bigint and s.start = (select a.live from start a)
), told as (
  insert into waggle.touched (partition_id) select $1::bigint from taken t having count(*) > 0
), behind as materialized (
  select c.id from waggle.cursor c
  where c.partition_id = $1::bigint and c.committed < (select max(t.last) from taken t)
    and (c.lease is null or c.lease_expires_at <= clock_timestamp())
  order by c.partition_id, c.group_id
  for no key update of c skip locked
), moved as (
  update waggle.cursor c
  set committed = (select max(t.last) from taken t), batch_end = null, lease = null, lease_expires_at = null,
      attempt_offset = -1, attempt = 0, retry = 0
  from behind b where c.id = b.id
  returning 1
)
select (select count(*) from deleted), (select count(*) from emptied), (select count(*) from moved),
       coalesce((select sum(t.messages) from taken t where t.cause = 1), 0)::bigint as expired,
       coalesce((select sum(t.messages) from taken t where t.cause = 2), 0)::bigint as completed,
       coalesce((select sum(t.messages) from taken t where t.cause = 3), 0)::bigint as evicted,
       (select count(*) from due) = $7::int or (select count(*) from due) > (select count(*) from taken) as more
