-- Flush (b): appends segments to the partitions that (a) locked; takes no further row lock. $1 to $5 hold one entry a
-- partition, $6 to $11 one a segment: the partition's number among the former, the offset of its first record after
-- those before it, and what is stored. known is the head that the broker's hashes reach up to, -1 to not compare.
-- Answers one row a partition: 0 appended, 1 skipped (a neighbour holds it), 2 gone, 3 the queue's options or write
-- format differ, 4 a hash stands at or after the known head; only 0 has written anything. Then one row, of outcome -1,
-- for each segment at or after a known head. Nothing here joins one list of the input with another (is true keeps the
-- planner from making joins of the subqueries): it takes as long as the input is, whatever join it would choose.
with part as materialized (
  select p.*, p.partition_id in (
           select l::bigint from unnest(string_to_array(nullif(current_setting('waggle.locked'), ''), ',')) l) as held
  from unnest($1::bigint[], $2::bigint[], $3::bigint[], $4::smallint[], $5::bigint[])
    with ordinality as p (partition_id, queue_id, version, format, known, ord)
), head as materialized (
  select p.*, coalesce(h.base_offset + h.count, 0) as next, greatest(clock_timestamp(), h.created_at) as stamp,
         coalesce(q.version = p.version and q.write_format = p.format, false) as fresh
  from part p
  left join waggle.queue q on q.id = p.queue_id
  left join lateral (
    select s.base_offset, s.count, s.created_at from waggle.segment s
    where p.held and s.partition_id = p.partition_id order by s.base_offset desc limit 1
  ) h on true
), missed as materialized (
  -- The empty addition brings the ids in from where large values are kept, once instead of for each of them.
  select h.ord, s.base_offset, s.count, s.created_at, s.ids || ''::bytea as ids
  from head h join waggle.segment s on s.partition_id = h.partition_id and s.base_offset >= h.known
  where h.held and h.fresh and h.known >= 0 and h.known < h.next
), input as materialized (
  select * from unnest($6::int[], $7::int[], $8::int[], $9::int[], $10::bytea[], $11::bytea[]) as i (part, rel, count, size, ids, body)
), clash as materialized (
  -- Grouped, not looked up: a subplan over the missed ids is not hashed when their number is overestimated, and then
  -- costs their product.
  select distinct c.part
  from (
    select i.part::bigint as part, substr(i.ids, g * 16 + 1, 16) as hash, true as sent
    from input i cross join lateral generate_series(0, i.count - 1) g
    where (i.part in (select m.ord::int from missed m)) is true
    union all
    select m.ord, substr(m.ids, g * 16 + 1, 16), false
    from missed m cross join lateral generate_series(0, m.count - 1) g
  ) c
  where c.hash <> '\x00000000000000000000000000000000'
  group by c.part, c.hash
  having bool_or(c.sent) and bool_or(not c.sent)
), fate as materialized (
  select array_agg(h.partition_id order by h.ord) as ids, array_agg(h.stamp order by h.ord) as stamps,
         array_agg(case when h.held and h.fresh and h.ord not in (select c.part from clash c) then h.next else -1 end
                   order by h.ord) as bases
  from head h
), appended as (
  insert into waggle.segment (partition_id, base_offset, created_at, count, size, format, ids, body)
  select f.ids[i.part], f.bases[i.part] + i.rel, f.stamps[i.part], i.count, i.size, ($4::smallint[])[i.part], i.ids, i.body
  from input i cross join fate f
  where f.bases[i.part] >= 0
)
select h.ord::int - 1 as part,
       case when not h.held then case when exists (select from waggle.partition x where x.id = h.partition_id)
                                       and exists (select from waggle.queue x where x.id = h.queue_id)
                                      then 1 else 2 end
            when not h.fresh then 3
            when h.ord in (select c.part from clash c) then 4
            else 0 end as outcome,
       h.next, h.stamp, null::int as count, null::bytea as ids
from head h
union all
select m.ord::int - 1, -1, m.base_offset, m.created_at, m.count, m.ids from missed m
