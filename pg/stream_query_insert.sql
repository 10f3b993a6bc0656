-- RegisterStream: makes a query, unless the tenant has $7 of them. No row: somebody else just made it, or there are too many.
insert into waggle.stream_query (id, tenant, name, source_queue, sink_queue, config_hash)
select $1::uuid, $2::uuid, $3::text, $4::text, $5::text, $6::text
where (select count(*) from (select from waggle.stream_query q where q.tenant = $2::uuid limit $7::int) n) < $7::int
on conflict (tenant, name) do nothing
returning id
