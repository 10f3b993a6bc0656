-- CountTraces: how many traces tenant $1 has under the name $2. Reads as many index entries; locks nothing.
select count(*) from waggle.trace_name where tenant = $1 and name = $2
