-- EnsurePartitions: makes missing partitions in (queue, name) order, under the locks of lock_queues.sql.
insert into waggle.partition (queue_id, name)
select i.queue_id, i.name
from unnest($1::bigint[], $2::text[]) as i (queue_id, name)
where i.queue_id = any ($3::bigint[])
order by i.queue_id, i.name
on conflict (queue_id, name) do nothing
