-- Records: the segments that records_lock has locked, in another format. $1 to $4 hold one entry a segment; a body that is null was
-- emptied by retention.
update waggle.segment s set format = i.format, body = i.body
from unnest($1::bigint[], $2::bigint[], $3::smallint[], $4::bytea[]) as i (partition_id, base_offset, format, body)
where s.partition_id = i.partition_id and s.base_offset = i.base_offset
