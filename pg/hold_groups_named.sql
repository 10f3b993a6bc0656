-- Resubscribe: locks the registered groups called $2 of tenant $1, in id order. A statement of its own: the one that
-- writes must see the rows as they are once they are locked.
select g.id from waggle.consumer_group g
join waggle.queue q on q.id = g.queue_id
where q.tenant = $1 and g.name = $2 and g.registered_at is not null
order by g.id for no key update of g
