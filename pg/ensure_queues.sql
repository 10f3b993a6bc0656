-- EnsureQueues: makes missing queues in (tenant, name) order, in a short transaction outside the lanes. Waits only
-- for the unique key. $3 and $4 are the namespace and task that follow from the names.
insert into waggle.queue (tenant, name, namespace, task, options, write_format)
select i.tenant, i.name, i.namespace, i.task, $5::jsonb, $6::smallint
from unnest($1::uuid[], $2::text[], $3::text[], $4::text[]) as i (tenant, name, namespace, task)
order by i.tenant, i.name
on conflict (tenant, name) do nothing
