-- QueueMinutes: what was done in the last whole minute, by queue name over all tenants, and how many dead letters each name has;
-- the $1 most active of them, the others together under an empty name. Also how old the newest row of each is, in seconds. Locks
-- nothing.
with minute as (
  select date_trunc('minute', clock_timestamp()) - interval '1 minute' as at
), done as (
  select q.name, sum(m.push_messages) as push_messages, sum(m.push_requests) as push_requests, sum(m.pop_messages) as pop_messages,
         sum(m.pop_empty) as pop_empty, sum(m.ack_success) as ack_success, sum(m.ack_failed) as ack_failed,
         sum(m.transactions) as transactions, sum(m.parked) as parked, sum(m.lag_sum_ms) as lag_sum, sum(m.lag_count) as lag_count,
         max(m.lag_max_ms) as lag_max, sum(m.conflated) as conflated
  from waggle.queue_metric m join waggle.queue q on q.id = m.queue_id
  where m.minutes = 1 and m.bucket = (select at from minute)
  group by 1
), letters as (
  select q.name, count(*) as letters from waggle.dead_letter d join waggle.queue q on q.id = d.queue_id group by 1
), named as (
  select coalesce(d.name, l.name) as name, coalesce(l.letters, 0) as letters, d.push_messages, d.push_requests, d.pop_messages,
         d.pop_empty, d.ack_success, d.ack_failed, d.transactions, d.parked, d.lag_sum, d.lag_count, d.lag_max, d.conflated,
         row_number() over (order by coalesce(d.push_messages + d.pop_messages, 0) desc, coalesce(l.letters, 0) desc) <= $1::int as own
  from done d full join letters l on l.name = d.name
)
select case when n.own then n.name else '' end, coalesce(sum(n.push_messages), 0)::bigint, coalesce(sum(n.push_requests), 0)::bigint,
       coalesce(sum(n.pop_messages), 0)::bigint, coalesce(sum(n.pop_empty), 0)::bigint, coalesce(sum(n.ack_success), 0)::bigint,
       coalesce(sum(n.ack_failed), 0)::bigint, coalesce(sum(n.transactions), 0)::bigint, coalesce(sum(n.parked), 0)::bigint,
       coalesce(sum(n.lag_sum), 0)::bigint, coalesce(sum(n.lag_count), 0)::bigint, coalesce(max(n.lag_max), 0)::bigint, sum(n.letters)::bigint,
       coalesce(sum(n.conflated), 0)::bigint,
       extract(epoch from clock_timestamp() - (select at from minute))::float8
from named n
group by 1
