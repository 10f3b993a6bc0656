-- Statistics.Pass, after statistics_lock: brings the counters of partitions $1 up to date. It reads the segments behind
-- those that are counted, at most $2 a partition, or all of them where the log was shortened by somebody who left no
-- word of it. Pending and processing are judged as in count_messages. A partition that is not done with, or has a
-- live lease, which ends without a word, is touched again for the next pass.
-- Writes the locked rows, touched, then queue_stat in queue order.
with held as materialized (
  select s.partition_id, s.queue_id, s.next, s.segments, s.messages, s.bytes, s.pending, s.processing, s.consumed,
         s.gone_segments, s.gone_messages, s.gone_bytes, s.newest, s.counted_at is null as fresh, p.id is not null as lives,
         coalesce(l.live_offset, 0) as live, s.start = coalesce(l.live_offset, 0) as known
  from waggle.partition_stat s
  left join waggle.partition p on p.id = s.partition_id
  left join waggle.log_start l on l.partition_id = s.partition_id
  where s.partition_id = any ($1::bigint[])
),
tails as materialized (
  select h.*, t.new_segments, t.new_messages, t.new_bytes,
         greatest(coalesce(t.last, 0), case when h.known then h.next else h.live end) as new_next,
         coalesce(t.stamp, h.newest) as new_newest, t.new_segments = $2::int as cut
  from held h
  cross join lateral (
    select count(*) as new_segments, coalesce(sum(x.count), 0)::bigint as new_messages, coalesce(sum(x.bytes), 0)::bigint as new_bytes,
           max(x.base_offset + x.count) as last, max(x.created_at) as stamp
    from (
      select n.base_offset, n.count, n.created_at, octet_length(n.body)::bigint as bytes
      from waggle.segment n
      where n.partition_id = h.partition_id and n.body is not null
        and n.base_offset >= greatest(case when h.known then h.next else 0 end, h.live)
      order by n.base_offset limit $2::int
    ) x
  ) t
),
logs as materialized (
  select t.*, t.new_segments + case when t.known then t.segments - t.gone_segments else 0 end as all_segments,
         t.new_messages + case when t.known then t.messages - t.gone_messages else 0 end as all_messages,
         t.new_bytes + case when t.known then t.bytes - t.gone_bytes else 0 end as all_bytes
  from tails t
),
marks as (
  select l.partition_id, g.name <> '__QUEUE_MODE__' as named, coalesce(c.committed, -1) as committed,
         case when c.lease_expires_at > clock_timestamp() then c.batch_end end as leased_to
  from logs l
  join waggle.consumer_group g on g.queue_id = l.queue_id
  left join waggle.cursor c on c.partition_id = l.partition_id and c.group_id = g.id
  where c.id is not null or g.registered_at is not null
),
judged as (
  select m.partition_id, m.committed, m.leased_to
  from (select k.*, bool_or(k.named) over (partition by k.partition_id) as any_named from marks k) m
  where m.named = m.any_named
),
states as materialized (
  select j.partition_id, min(j.committed) as committed,
         range_agg(int8range(j.committed + 1, j.leased_to + 1)) filter (where j.leased_to > j.committed) as leased
  from judged j group by j.partition_id
),
counted as materialized (
  select l.*, coalesce(s.committed, -1) as committed,
         greatest(l.new_next - greatest(coalesce(s.committed, -1) + 1, l.new_next - l.all_messages), 0) as outstanding,
         coalesce((select sum(upper(r) - lower(r))
                   from unnest(s.leased * int8multirange(int8range(l.new_next - l.all_messages, l.new_next))) r), 0)::bigint as leased
  from logs l left join states s on s.partition_id = l.partition_id
),
written as (
  update waggle.partition_stat s
  set next = c.new_next, start = c.live, segments = c.all_segments, messages = c.all_messages, bytes = c.all_bytes,
      gone_segments = 0, gone_messages = 0, gone_bytes = 0,
      pending = greatest(c.outstanding - c.leased, 0), processing = c.leased, consumed = c.new_next - c.outstanding,
      newest = c.new_newest, counted_at = clock_timestamp(),
      waiting_since = case when c.outstanding > 0 then (
        select n.created_at from waggle.segment n
        where n.partition_id = c.partition_id and n.base_offset <= greatest(c.committed + 1, c.new_next - c.all_messages)
        order by n.base_offset desc limit 1) end
  from counted c where s.partition_id = c.partition_id and c.lives
),
dropped as (
  delete from waggle.partition_stat s using counted c where s.partition_id = c.partition_id and not c.lives
),
again as (
  insert into waggle.touched (partition_id)
  select c.partition_id from counted c where c.lives and (c.cut or c.leased > 0)
),
summed as (
  insert into waggle.queue_stat as q (queue_id, partitions, segments, messages, bytes, pending, processing, consumed)
  select c.queue_id, count(*) filter (where c.fresh), sum(c.all_segments - c.segments), sum(c.all_messages - c.messages),
         sum(c.all_bytes - c.bytes), sum(greatest(c.outstanding - c.leased, 0) - c.pending), sum(c.leased - c.processing),
         sum(c.new_next - c.outstanding - c.consumed)
  from counted c where c.lives group by c.queue_id order by c.queue_id
  on conflict (queue_id) do update
  set partitions = q.partitions + excluded.partitions, segments = q.segments + excluded.segments,
      messages = q.messages + excluded.messages, bytes = q.bytes + excluded.bytes, pending = q.pending + excluded.pending,
      processing = q.processing + excluded.processing, consumed = q.consumed + excluded.consumed
)
select count(*), coalesce(bool_or(c.cut and c.lives), false) from counted c
