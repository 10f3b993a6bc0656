-- Called after each round until it is 0, so that the removal of one round's queues is no load on the next. Locks nothing.
select count(*) from waggle.purge;
