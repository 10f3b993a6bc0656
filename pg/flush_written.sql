-- The segments that the committed transaction $1 appended to partitions $2 (recover); the known heads $3 bound the
-- search.
select s.partition_id, s.base_offset, s.created_at
from unnest($2::bigint[], $3::bigint[]) as p (partition_id, known)
join waggle.segment s on s.partition_id = p.partition_id and s.base_offset >= greatest(p.known, 0)
where s.xmin::text::bigint = $1::bigint & 4294967295
order by s.partition_id, s.base_offset
