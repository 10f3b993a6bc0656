-- TraceNames: the names that traces of tenant $1 have, the one used last first, limit $2, offset $3; each row with the
-- number of all names. One index probe a name finds them and when they were used last; only those of the page are
-- counted. Locks nothing. A page beyond the last name is one row without a name, for the sake of the number.
with recursive latest as (
  (select n.name, n.created_at from waggle.trace_name n
   where n.tenant = $1 order by n.name desc, n.created_at desc limit 1)
  union all
  select s.name, s.created_at
  from latest l
  cross join lateral (
    select n.name, n.created_at from waggle.trace_name n
    where n.tenant = $1 and n.name < l.name order by n.name desc, n.created_at desc limit 1
  ) s
), page as materialized (
  select l.name, l.created_at from latest l order by l.created_at desc, l.name limit $2 offset $3
)
select a.total, p.name, c.traces, c.messages, p.created_at
from (select count(*) as total from latest) a
left join page p on true
left join lateral (
  select count(*) as traces, count(distinct (n.partition_id, n.transaction_hash)) as messages
  from waggle.trace_name n where n.tenant = $1 and n.name = p.name
) c on true
order by p.created_at desc, p.name
