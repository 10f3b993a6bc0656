-- Admit: the floors, in the transaction that inserts the registry row. The share lock on the gate lasts until its commit, so
-- that whoever raises a floor, under an exclusive lock, either is seen here or sees the row.
-- $1 is the record format that the build knows; the names of queues above it are for the message.
select system_floor, record_floor,
  case when record_floor > $1::int
    then array(select name from waggle.queue where read_floor > $1::int order by name limit 5) else '{}' end
from waggle.gate
