-- Records, down: the leader's job that rewrites segments is due now. Locks the job's row.
insert into waggle.job (name, next_due) values ('records', clock_timestamp())
on conflict (name) do update set next_due = least(waggle.job.next_due, clock_timestamp())
