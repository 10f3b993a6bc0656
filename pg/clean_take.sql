-- Partitions.Clean, under clean_lock.sql and statistics_lock.sql: takes those of partitions $1 away that are idle indeed, as
-- DeleteQueue does: the rows go, what is left of the log is left to the purge. A partition stays while a dead letter or the
-- state of a stream hangs on it, a lease lives, or a group has a cursor that only ever popped single partitions: it might begin
-- behind what is pushed first. Locks cursors in the order of every other cursor lock, then purge rows,
-- then queue_stat in queue order.
with idle as materialized (
  select p.id, p.queue_id
  from waggle.partition p
  left join waggle.log_start l on l.partition_id = p.id
  left join lateral (
    select s.base_offset + s.count as next, s.created_at from waggle.segment s
    where s.partition_id = p.id order by s.base_offset desc limit 1
  ) n on true
  where p.id = any ($1::bigint[])
    and p.created_at < clock_timestamp() - make_interval(secs => $2::float8)
    and (n.next is null or n.next <= l.live_offset and n.created_at < clock_timestamp() - make_interval(secs => $2::float8))
    and not exists (select from waggle.dead_letter d where d.partition_id = p.id)
    and not exists (select from waggle.stream_state t where t.partition_id = p.id)
    and not exists (select from waggle.cursor c join waggle.consumer_group g on g.id = c.group_id
                    where c.partition_id = p.id and (c.lease_expires_at > clock_timestamp() or g.registered_at is null))
), cursors as materialized (
  select c.id from waggle.cursor c where c.partition_id in (select i.id from idle i)
  order by c.partition_id, c.group_id for update
), uncursored as (
  delete from waggle.cursor c using cursors k where c.id = k.id
), gone as (
  delete from waggle.partition p using idle i where p.id = i.id returning p.id
), purged as (
  insert into waggle.purge (partition_id) select g.id from gone g order by g.id on conflict (partition_id) do nothing
), uncounted as (
  delete from waggle.partition_stat s using idle i where s.partition_id = i.id
  returning s.queue_id, s.counted_at, s.segments, s.messages, s.bytes, s.pending, s.processing, s.consumed
), sums as (
  select u.queue_id, count(*) filter (where u.counted_at is not null) as partitions, sum(u.segments) as segments,
         sum(u.messages) as messages, sum(u.bytes) as bytes, sum(u.pending) as pending, sum(u.processing) as processing,
         sum(u.consumed) as consumed
  from uncounted u group by u.queue_id
), summed as (
  insert into waggle.queue_stat as q (queue_id, partitions, segments, messages, bytes, pending, processing, consumed)
  select s.queue_id, -s.partitions, -s.segments, -s.messages, -s.bytes, -s.pending, -s.processing, -s.consumed
  from sums s order by s.queue_id
  on conflict (queue_id) do update
  set partitions = q.partitions + excluded.partitions, segments = q.segments + excluded.segments,
      messages = q.messages + excluded.messages, bytes = q.bytes + excluded.bytes, pending = q.pending + excluded.pending,
      processing = q.processing + excluded.processing, consumed = q.consumed + excluded.consumed
)
select count(*) from gone
