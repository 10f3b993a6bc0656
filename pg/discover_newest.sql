-- DiscoverNewest: for each (tenant, namespace, task) the newest queue that discover_queues.sql would find, 0 for none.
-- One statement for everybody who waits; locks nothing.
select i.ord::int - 1, coalesce(max(q.id), 0)
from unnest($1::uuid[], $2::text[], $3::text[]) with ordinality as i (tenant, namespace, task, ord)
left join waggle.queue q on q.tenant = i.tenant and (i.namespace is null or q.namespace = i.namespace)
  and (i.task is null or q.task = i.task)
group by i.ord
