-- Statistics.Pass: how far the passes have come, and the newest of the touched partitions that this one has to see to.
-- Locks nothing.
select p.appended, p.walked, p.rounds, coalesce((select t.id from waggle.touched t order by t.id desc limit 1), 0)
from waggle.statistics_pass p
