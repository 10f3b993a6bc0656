-- SwitchJob: locks the job's row.
update waggle.job set enabled = $2::boolean where name = $1::text
