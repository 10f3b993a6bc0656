-- Partitions.Clean: of the next $2 partitions after $1, those that look idle: made and last written to more than $3 s ago, and
-- retention has emptied them. Also the last partition that was looked at and how many they were. Reads the last segment of
-- each, no body. Locks nothing.
with page as materialized (
  select p.id, p.created_at from waggle.partition p where p.id > $1::bigint order by p.id limit $2::int
)
select array(
         select p.id
         from page p
         left join waggle.log_start l on l.partition_id = p.id
         left join lateral (
           select s.base_offset + s.count as next, s.created_at from waggle.segment s
           where s.partition_id = p.id order by s.base_offset desc limit 1
         ) n on true
         where p.created_at < clock_timestamp() - make_interval(secs => $3::float8)
           and (n.next is null or n.next <= l.live_offset and n.created_at < clock_timestamp() - make_interval(secs => $3::float8))
         order by p.id
       ), coalesce((select max(p.id) from page p), 0), (select count(*) from page)
