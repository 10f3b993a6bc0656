-- Called after each side that inserts blobs. Locks only the table of this run.
truncate waggle_bench.segment;
