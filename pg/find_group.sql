-- FindGroup: locks nothing.
select g.id, g.registered_at is not null, g.start_mode, g.start_at, g.generation, g.conflation
from waggle.consumer_group g where g.queue_id = $1 and g.name = $2
