-- Touch: leaves word that the cursors of partitions $1 have moved. Locks nothing that others wait for.
insert into waggle.touched (partition_id) select unnest($1::bigint[])
