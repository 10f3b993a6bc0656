-- RollUpMetrics: from which hour on there is something to sum up, to the last whole one. An hour counts as whole five minutes after
-- its end; the last one that was summed up is done again, for rows that came late. Locks nothing.
select coalesce((select max(m.bucket) from waggle.queue_metric m where m.minutes = 60),
                (select date_trunc('hour', min(m.bucket)) from waggle.queue_metric m where m.minutes = 1)),
       date_trunc('hour', clock_timestamp() - interval '5 minutes')
