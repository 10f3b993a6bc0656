-- SeekGroup: as bump_generation.sql, but makes the group's row if there is none. One statement, because between two the
-- group may be deleted.
insert into waggle.consumer_group as g (queue_id, name) values ($1, $2)
on conflict (queue_id, name) do update set generation = g.generation + 1
returning id, generation
