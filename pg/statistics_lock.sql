-- Statistics.Pass, and retention before it takes segments away: whoever changes the counters of a partition locks their
-- rows first, in id order, in a statement of its own: only the next one sees what this one waited for.
select s.partition_id from waggle.partition_stat s where s.partition_id = any ($1::bigint[]) order by s.partition_id for update
