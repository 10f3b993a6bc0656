-- WriteTrace: a trace $1 of the message $5 (hash $4) in partition $2, if that belongs to tenant $3. That the message
-- exists is not checked. Answers how many were written. Locks nothing that exists.
with place as materialized (
  select p.id, p.name as partition_name, q.name as queue_name, clock_timestamp() as now
  from waggle.partition p
  join waggle.queue q on q.id = p.queue_id
  where p.id = $2::bigint and q.tenant = $3::uuid
), written as (
  insert into waggle.trace (id, tenant, partition_id, queue_name, partition_name, transaction_hash, transaction_id,
                            group_name, event_type, data, names, created_at)
  select $1::uuid, $3::uuid, p.id, p.queue_name, p.partition_name, $4::bytea, $5::text, $6::text, $7::text, $8::bytea,
         $9::text[], p.now
  from place p
), named as (
  insert into waggle.trace_name (tenant, name, created_at, trace_id, partition_id, transaction_hash)
  select $3::uuid, n.name, p.now, $1::uuid, p.id, $4::bytea
  from place p cross join unnest($9::text[]) as n (name)
)
select count(*) from place
