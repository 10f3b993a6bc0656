-- Records: which of the names $2 no queue of tenant $1 has. Locks nothing.
select name from unnest($2::text[]) name
where not exists (select from waggle.queue q where q.name = name.name and ($1::uuid is null or q.tenant = $1::uuid))
order by 1
