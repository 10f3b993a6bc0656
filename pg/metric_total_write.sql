-- WriteMetrics: adds the numbers $1 of queues, 20 of each, $2 failed flushes and $3 transactions to what was ever done by
-- the whole cluster. Locks its two rows.
with sums as (
  select sum(v) filter (where (ord - 1) % 20 = 0) as push_requests, sum(v) filter (where (ord - 1) % 20 = 1) as push_messages,
         sum(v) filter (where (ord - 1) % 20 = 2) as pop_requests, sum(v) filter (where (ord - 1) % 20 = 3) as pop_messages,
         sum(v) filter (where (ord - 1) % 20 = 5) as ack_requests, sum(v) filter (where (ord - 1) % 20 = 6) as ack_success,
         sum(v) filter (where (ord - 1) % 20 = 7) as ack_failed,
         sum(v) filter (where (ord - 1) % 20 = 10) as dead_letters
  from unnest($1::bigint[]) with ordinality as n (v, ord)
  having count(*) > 0 or $3::bigint > 0
), done as (
  insert into waggle.queue_metric as m (minutes, bucket, queue_id, broker, push_requests, push_messages, pop_requests,
      pop_messages, ack_requests, ack_success, ack_failed, transactions, dead_letters)
  select 0, 'epoch', 0, '', coalesce(s.push_requests, 0), coalesce(s.push_messages, 0), coalesce(s.pop_requests, 0),
      coalesce(s.pop_messages, 0), coalesce(s.ack_requests, 0), coalesce(s.ack_success, 0), coalesce(s.ack_failed, 0),
      $3::bigint, coalesce(s.dead_letters, 0)
  from sums s
  on conflict (minutes, bucket, queue_id, broker) do update set
      push_requests = m.push_requests + excluded.push_requests,
      push_messages = m.push_messages + excluded.push_messages,
      pop_requests = m.pop_requests + excluded.pop_requests,
      pop_messages = m.pop_messages + excluded.pop_messages,
      ack_requests = m.ack_requests + excluded.ack_requests,
      ack_success = m.ack_success + excluded.ack_success,
      ack_failed = m.ack_failed + excluded.ack_failed,
      transactions = m.transactions + excluded.transactions,
      dead_letters = m.dead_letters + excluded.dead_letters
)
insert into waggle.broker_metric as m (minutes, bucket, broker, db_errors)
select 0, 'epoch', '', $2::bigint where $2::bigint > 0
on conflict (minutes, bucket, broker) do update set db_errors = m.db_errors + excluded.db_errors
