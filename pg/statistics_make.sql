-- Statistics.Pass, before statistics_lock: makes the rows of partitions $1 that have none, in id order.
insert into waggle.partition_stat (partition_id, queue_id)
select p.id, p.queue_id
from waggle.partition p
where p.id = any ($1::bigint[]) and not exists (select from waggle.partition_stat s where s.partition_id = p.id)
order by p.id
on conflict (partition_id) do nothing
