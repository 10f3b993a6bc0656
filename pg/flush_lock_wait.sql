-- Flush (a) of a partition that was skipped too often: the same as flush_lock.sql for one partition, but it waits.
select set_config('waggle.locked', coalesce(string_agg(l.id::text, ','), ''), true)
from (
  select p.id from waggle.partition p where p.id = any ($1::bigint[]) order by p.id for no key update
) l
