-- Apply, before the lock: a role's default would cut a long step off.
select set_config('statement_timeout', '0', false)
