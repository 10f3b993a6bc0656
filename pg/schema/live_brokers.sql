-- Apply: whether any broker lives. $1 is how old, in seconds, the last heartbeat of a live broker may be. Locks nothing.
select exists (select from waggle.broker where left_at is null and seen_at > clock_timestamp() - make_interval(secs => $1::float8))
