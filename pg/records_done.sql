-- Records: nothing of a later format than $2 is left in queue $1, if nobody has moved it meanwhile. Locks the queue's row.
update waggle.queue set read_floor = write_format where id = $1::bigint and write_format = $2::smallint and read_floor > write_format
