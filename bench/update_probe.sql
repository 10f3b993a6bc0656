-- Called by the update yardstick, in a transaction of its own. Locks the one row of the probe.
update waggle_bench.probe set n = n + 1 where id = 1;
