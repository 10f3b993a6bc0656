-- StatisticsAge: seconds since a pass ended, -1 when none ever has. Locks nothing.
select coalesce(extract(epoch from clock_timestamp() - p.pass_at)::float8, -1) from waggle.statistics_pass p
