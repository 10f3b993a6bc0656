-- ClusterTotals: what was ever done by the whole cluster, as far as brokers have written it. Locks nothing.
select coalesce(m.push_requests, 0), coalesce(m.push_messages, 0), coalesce(m.pop_requests, 0), coalesce(m.pop_messages, 0),
       coalesce(m.ack_requests, 0), coalesce(m.ack_success, 0), coalesce(m.ack_failed, 0), coalesce(m.transactions, 0),
       coalesce(m.dead_letters, 0), coalesce(b.db_errors, 0)
from (select) one
left join waggle.queue_metric m on m.minutes = 0 and m.bucket = 'epoch' and m.queue_id = 0 and m.broker = ''
left join waggle.broker_metric b on b.minutes = 0 and b.bucket = 'epoch' and b.broker = ''
