-- EnsureQueues: makes missing queues in (tenant, name) order, in a short transaction outside the lanes. Waits only
-- for the unique key. $3 and $4 are the namespace and task that follow from the names. They begin with the record format that
-- finalize has chosen, which all builds that the gate lets in can read.
insert into waggle.queue (tenant, name, namespace, task, options, write_format, read_floor)
select i.tenant, i.name, i.namespace, i.task, $5::jsonb, f.format, f.format
from unnest($1::uuid[], $2::text[], $3::text[], $4::text[]) as i (tenant, name, namespace, task)
cross join (
  select coalesce((select (value #>> '{}')::smallint from waggle.setting where name = 'record_format'), 1::smallint) as format
) f
order by i.tenant, i.name
on conflict (tenant, name) do nothing
