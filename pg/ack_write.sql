-- AckSet: writes what was decided under the lock of ack_cursor.sql.
update waggle.cursor
set committed = $2,
    batch_end = case when $3 then null else batch_end end,
    lease = case when $3 then null else lease end,
    lease_expires_at = case when $3 then null else lease_expires_at end,
    retry = $4
where id = $1
