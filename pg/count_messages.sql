-- CountMessages: what the logs of queues $1 retain and how far it has been consumed, by partition if $2, else summed
-- up by queue. Reads every segment row of those queues, but no body: octet_length of an external value is in its
-- pointer. Locks nothing.
--
-- A message is judged by the named groups where there are any, else by queue mode: outstanding until all of them have
-- consumed it, processing while it is inside a live lease of one of them. A group that pops single partitions only has
-- a say where it has a cursor; a registered one without a cursor has yet to read the whole partition.
with logs as (
  select p.id, p.queue_id,
         count(s.body) as segments,
         coalesce(sum(s.count) filter (where s.body is not null), 0) as messages,
         coalesce(sum(octet_length(s.body)), 0) as bytes,
         coalesce(min(s.base_offset) filter (where s.body is not null), 0) as first,
         coalesce(max(s.base_offset + s.count) filter (where s.body is not null), 0) as next,
         min(s.created_at) filter (where s.body is not null) as oldest,
         max(s.created_at) filter (where s.body is not null) as newest
  from waggle.partition p
  left join waggle.segment s on s.partition_id = p.id
  where p.queue_id = any ($1::bigint[])
  group by p.id
),
marks as (
  select l.id, g.name <> '__QUEUE_MODE__' as named, coalesce(c.committed, -1) as committed,
         case when c.lease_expires_at > now() then c.batch_end end as leased_to
  from logs l
  join waggle.consumer_group g on g.queue_id = l.queue_id
  left join waggle.cursor c on c.partition_id = l.id and c.group_id = g.id
  where c.id is not null or g.registered_at is not null
),
judged as (
  select id, committed, leased_to
  from (select m.*, bool_or(named) over (partition by id) as any_named from marks m) m
  where named = any_named
),
states as (
  select id, min(committed) as committed,
         range_agg(int8range(committed + 1, leased_to + 1)) filter (where leased_to > committed) as leased
  from judged group by id
),
letters as (
  select partition_id, count(*) as letters
  from waggle.dead_letter where queue_id = any ($1::bigint[]) group by partition_id
),
counted as (
  select l.*, coalesce(d.letters, 0) as letters,
         greatest(l.next - greatest(coalesce(s.committed, -1) + 1, l.first), 0) as outstanding,
         coalesce((select sum(upper(r) - lower(r))
                   from unnest(s.leased * int8multirange(int8range(l.first, l.next))) r), 0) as processing
  from logs l
  left join states s on s.id = l.id
  left join letters d on d.partition_id = l.id
)
select queue_id, case when $2 then id else 0 end as partition_id, count(*) as partitions,
       sum(segments)::bigint, sum(messages)::bigint, sum(bytes)::bigint,
       sum(greatest(outstanding - processing, 0))::bigint as pending,
       sum(processing)::bigint, sum(greatest(messages - outstanding, 0))::bigint as completed,
       sum(letters)::bigint, min(oldest), max(newest)
from counted
group by 1, 2
