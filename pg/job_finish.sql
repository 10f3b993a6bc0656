-- Fenced.Finish: records how the run of job $1 ended: $2 rows, error $3 or null. Locks the job row.
update waggle.job
set rows_done = rows_done + $2::bigint, last_rows = $2::bigint,
    last_error = $3::text,
    last_success = case when $3::text is null then clock_timestamp() else last_success end,
    last_failure = case when $3::text is not null then clock_timestamp() else last_failure end
where name = $1::text
