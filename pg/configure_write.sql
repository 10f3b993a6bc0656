-- Configure: writes the merged options under configure_lock.sql.
update waggle.queue set options = $2, namespace = $3, task = $4, version = version + 1 where id = $1 returning version
