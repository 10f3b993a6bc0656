-- Recheck: kind 0, the partitions of queues $1 written since $2 with their newest offset (at most $3 partitions are
-- looked at); kind 1, the generations of groups $4, which cursor moves bump. One statement for everything that is
-- due; locks nothing.
(select 0, p.id, p.queue_id, w.newest
 from (select s.partition_id, max(s.base_offset + s.count - 1) as newest
       from waggle.segment s where s.created_at >= $2::timestamptz group by s.partition_id limit $3) w
 join waggle.partition p on p.id = w.partition_id
 where p.queue_id = any ($1::bigint[]))
union all
(select 1, g.id, g.generation, 0 from waggle.consumer_group g where g.id = any ($4::bigint[]))
