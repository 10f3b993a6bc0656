-- Flush of claims alone: the commit need not be on disk before the answer. Losing it loses a lease, so the messages
-- come again.
select set_config('synchronous_commit', 'off', true)
