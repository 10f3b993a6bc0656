-- Down: under the exclusive lock on the gate. From its commit on no build is admitted that needs more than what is left.
delete from waggle.schema_step where scope = 'system' and version > $1
