-- ReadyPage: one page of the partitions of queue $1 after name $3, with what group $2 has still to read there: behind
-- says that there is something past its cursor, or that it has none; remaining is the ms a live lease still lasts.
select p.id, p.name,
       coalesce(n.next, 0) > coalesce(c.committed + 1, 0) as behind,
       case when c.lease_expires_at > clock_timestamp()
            then ceil(extract(epoch from c.lease_expires_at - clock_timestamp()) * 1000)::bigint else 0 end as remaining
from (select id, name from waggle.partition where queue_id = $1 and name > $3 order by name limit $4) p
left join waggle.cursor c on c.partition_id = p.id and c.group_id = $2
left join lateral (select s.base_offset + s.count as next from waggle.segment s
                   where s.partition_id = p.id order by s.base_offset desc limit 1) n on true
order by p.name
