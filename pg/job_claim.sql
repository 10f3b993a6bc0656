-- Fenced.Claim: takes the run of job $1 that is due, and moves the due time on by whole multiples of $2 ms to the first
-- one ahead, so that many missed runs are made up by one. A job seen for the first time is due at once. No row when it
-- is not due, not enabled, or needs a build that knows more than step $3. Locks the job row, so two leaders cannot take the
-- same run.
insert into waggle.job as j (name, next_due, last_start)
values ($1::text, clock_timestamp() + make_interval(secs => $2::float8 / 1000), clock_timestamp())
on conflict (name) do update
set last_start = clock_timestamp(),
    next_due = j.next_due + make_interval(secs => $2::float8 / 1000 * (
      1 + floor(extract(epoch from clock_timestamp() - j.next_due)::float8 / ($2::float8 / 1000))))
where j.enabled and j.min_build <= $3::int and j.next_due <= clock_timestamp()
returning extract(epoch from j.next_due - clock_timestamp())::float8
