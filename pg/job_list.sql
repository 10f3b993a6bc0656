-- ListJobs: every job that a leader has ever had. Locks nothing.
select name, enabled, next_due, last_start, last_success, last_failure, coalesce(last_error, ''), last_rows, rows_done, min_build
from waggle.job order by name
