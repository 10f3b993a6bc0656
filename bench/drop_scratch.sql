-- Called once after the rounds. Locks only tables of this run.
drop schema if exists waggle_bench cascade;
