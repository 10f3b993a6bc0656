-- Flush (a): locks the partitions $1 in id order. One that a neighbour holds is skipped; what was locked is handed to
-- (b) inside the server, because (b) must have a snapshot taken after the locks.
select set_config('waggle.locked', coalesce(string_agg(l.id::text, ','), ''), true)
from (
  select p.id from waggle.partition p where p.id = any ($1::bigint[]) order by p.id for no key update skip locked
) l
