-- FetchResolve: for each (queue, partition) of tenant $1 the ids that there are now. Locks nothing.
select i.ord::int - 1, q.id, p.id
from unnest($2::text[], $3::text[]) with ordinality as i (queue, partition, ord)
join waggle.queue q on q.tenant = $1::uuid and q.name = i.queue
left join waggle.partition p on p.queue_id = q.id and p.name = i.partition
