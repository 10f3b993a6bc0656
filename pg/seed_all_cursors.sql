-- RegisterGroup: a cursor in every partition of queue $1 for group $2, from one snapshot. Mode $3: 0 before the first
-- retained record, 1 at the tail, 2 before the first segment created at or after $4, else at the tail.
insert into waggle.cursor (partition_id, group_id, committed)
select p.id, $2,
       case $3::int when 0 then coalesce(f.live_offset, 0) - 1
            when 1 then coalesce(n.next, 0) - 1
            else coalesce((select s.base_offset from waggle.segment s
                           where s.partition_id = p.id and s.created_at >= $4::timestamptz
                           order by s.base_offset limit 1), n.next, 0) - 1 end
from waggle.partition p
left join waggle.log_start f on f.partition_id = p.id
left join lateral (select s.base_offset + s.count as next from waggle.segment s
                   where s.partition_id = p.id order by s.base_offset desc limit 1) n on true
where p.queue_id = $1
order by p.id
on conflict (partition_id, group_id) do nothing
