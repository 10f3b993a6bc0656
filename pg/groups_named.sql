-- GroupsNamed: the queues of tenant $1 in which the group $2 has a row. Locks nothing.
select q.name from waggle.queue q
join waggle.consumer_group g on g.queue_id = q.id and g.name = $2
where q.tenant = $1
order by q.id
