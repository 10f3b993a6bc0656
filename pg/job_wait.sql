-- Fenced.Claim, when nothing was to be claimed: seconds until job $1 is due; null while it is switched off or needs a build
-- that knows more than step $2. Locks nothing.
select case when enabled and min_build <= $2::int then extract(epoch from next_due - clock_timestamp())::float8 end
from waggle.job where name = $1::text
