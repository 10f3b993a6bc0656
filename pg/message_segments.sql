-- MessageSegments, for few partitions: the segments of $1 that have a body, were created from $2 on and before $3, and
-- come after the place ($4, $5, $6) in the order newest first; at most $7. Within a partition times do not fall, so both
-- ends are found by halving the offsets (see seek_page.sql), and no more than $7 segments of each partition are read.
-- Bodies are not. Locks nothing.
with recursive ends as materialized (
  select p.id, f.base_offset as first, f.created_at as first_at, l.base_offset as last, l.created_at as last_at
  from unnest($1::bigint[]) as p (id)
  cross join lateral (select s.base_offset, s.created_at from waggle.segment s
                      where s.partition_id = p.id order by s.base_offset limit 1) f
  cross join lateral (select s.base_offset, s.created_at from waggle.segment s
                      where s.partition_id = p.id order by s.base_offset desc limit 1) l
), bounds as materialized (
  select * from (values (0, $2::timestamptz), (1, least($3::timestamptz, $4::timestamptz + interval '1 microsecond'))) as b (kind, at)
), halving as (
  select e.id, b.kind, b.at, e.first as low, e.last as high
  from ends e join bounds b on e.first_at < b.at and e.last_at >= b.at
  union all
  select h.id, h.kind, h.at, case when m.created_at < h.at then (h.low + h.high) / 2 else h.low end,
         case when m.created_at < h.at then h.high else m.base_offset end
  from halving h
  cross join lateral (
    select s.base_offset, s.created_at from waggle.segment s
    where s.partition_id = h.id and s.base_offset <= (h.low + h.high) / 2
    order by s.base_offset desc limit 1
  ) m
  where h.high - h.low > 1
), found as (
  select e.id, b.kind, case when e.last_at < b.at then e.last + 1 when e.first_at >= b.at then e.first else h.high end as base
  from ends e cross join bounds b
  left join (select id, kind, min(high) as high from halving group by id, kind) h on h.id = e.id and h.kind = b.kind
), ranges as (
  select f.id, greatest(min(f.base) filter (where f.kind = 0), max(s.live_offset)) as low, min(f.base) filter (where f.kind = 1) as high
  from found f left join waggle.log_start s on s.partition_id = f.id
  group by f.id
)
select s.partition_id, s.base_offset, s.count, s.created_at, octet_length(s.body)
from ranges r
cross join lateral (
  select s.partition_id, s.base_offset, s.count, s.created_at, s.body from waggle.segment s
  where s.partition_id = r.id and s.base_offset >= r.low and s.base_offset < r.high and s.body is not null
    and (s.created_at, s.partition_id, s.base_offset) < ($4::timestamptz, $5::bigint, $6::bigint)
  order by s.base_offset desc limit $7::int
) s
order by s.created_at desc, s.partition_id desc, s.base_offset desc
limit $7::int
