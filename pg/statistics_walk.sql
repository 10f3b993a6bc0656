-- Statistics.Pass: of the next $2 partitions after $1, those whose counters do not fit: never counted, a log shortened
-- without a word, or cursors that stand elsewhere. Reads ranges of neighbours, and no segment. Also the last partition
-- that was looked at and how many they were. Locks nothing.
with page as materialized (
  select p.id, p.queue_id from waggle.partition p where p.id > $1::bigint order by p.id limit $2::int
),
ends as materialized (
  select coalesce(min(id), 0) as low, coalesce(max(id), 0) as high, count(*) as seen from page
),
stats as materialized (
  select s.partition_id, s.start, s.next, s.messages, s.consumed, s.processing, s.gone_messages
  from waggle.partition_stat s
  where s.partition_id >= (select low from ends) and s.partition_id <= (select high from ends)
),
starts as materialized (
  select l.partition_id, l.live_offset from waggle.log_start l
  where l.partition_id >= (select low from ends) and l.partition_id <= (select high from ends)
),
groups as materialized (
  select g.id, g.queue_id, g.name <> '__QUEUE_MODE__' as named, g.registered_at is not null as registered
  from waggle.consumer_group g where g.queue_id in (select queue_id from page)
),
cursors as materialized (
  select c.partition_id, c.group_id, c.committed, c.lease_expires_at > clock_timestamp() as leased
  from waggle.cursor c
  where c.partition_id >= (select low from ends) and c.partition_id <= (select high from ends)
),
marks as (
  select p.id, g.named, coalesce(c.committed, -1) as committed, coalesce(c.leased, false) as leased
  from page p
  join groups g on g.queue_id = p.queue_id
  left join cursors c on c.partition_id = p.id and c.group_id = g.id
  where c.partition_id is not null or g.registered
),
states as materialized (
  select m.id, min(m.committed) as committed, bool_or(m.leased) as leased
  from (select k.*, bool_or(k.named) over (partition by k.id) as any_named from marks k) m
  where m.named = m.any_named group by m.id
)
select array(
         select p.id
         from page p
         left join stats s on s.partition_id = p.id
         left join starts l on l.partition_id = p.id
         left join states t on t.id = p.id
         where s.partition_id is null or s.start <> coalesce(l.live_offset, 0) or s.gone_messages > 0
           or s.consumed <> least(s.next, greatest(coalesce(t.committed, -1) + 1, s.next - s.messages))
           or coalesce(t.leased, false) <> (s.processing > 0)
         order by p.id
       ), e.high, e.seen
from ends e
