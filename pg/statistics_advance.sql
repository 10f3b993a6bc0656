-- Statistics.Pass, when all that it found is counted. Two passes at once: the further one counts, and a walk that the
-- other has moved on meanwhile is not moved twice. Locks the row of the pass.
update waggle.statistics_pass
set appended = greatest(appended, $1::timestamptz), pass_at = clock_timestamp(),
    walked = case when walked = $2::bigint then $3::bigint else walked end,
    rounds = case when walked = $2::bigint and $4::boolean then rounds + 1 else rounds end
