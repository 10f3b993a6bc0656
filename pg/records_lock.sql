-- Records: the next $5 segments of partitions $1, behind offset $3 of partition $2, that have a later format than $4. Locks them in
-- their order; retention waits, appends do not.
select s.partition_id, s.base_offset, s.format, s.count, s.body
from waggle.segment s
where s.partition_id = any ($1::bigint[]) and (s.partition_id, s.base_offset) > ($2::bigint, $3::bigint) and s.format > $4::smallint
order by s.partition_id, s.base_offset limit $5::int
for no key update
