-- Resubscribe, under hold_groups_named.sql: lets the groups $1 begin at $2 in partitions that they have no cursor in.
update waggle.consumer_group set start_mode = 2, start_at = $2 where id = any ($1::bigint[])
