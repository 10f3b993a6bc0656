-- CountTenant: what tenant $1 has, for the limits. Locks nothing.
select (select count(*) from waggle.queue q where q.tenant = $1),
       (select count(*) from waggle.queue q join waggle.partition p on p.queue_id = q.id where q.tenant = $1),
       (select count(*) from waggle.queue q join waggle.consumer_group g on g.queue_id = q.id where q.tenant = $1)
