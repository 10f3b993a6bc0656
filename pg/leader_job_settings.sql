-- Fenced, first statement of every job transaction: it must end soon, because it stands between the next leader and its
-- epoch; it must not wait for the disk, because all of it can be done again; and its plans must take the index, whatever
-- was known of the tables when they were made. $1: how often to look whether we are still there, in ms; 0 where the
-- server cannot. $2: a look over many rows, which may join by hash and is worth a plan of its own. Locks nothing.
select set_config('statement_timeout', '1000', true),
       set_config('lock_timeout', '200', true),
       set_config('idle_in_transaction_session_timeout', '2000', true),
       set_config('client_connection_check_interval', $1::text, true),
       set_config('synchronous_commit', 'off', true),
       set_config('plan_cache_mode', case when $2::boolean then 'force_custom_plan' else 'force_generic_plan' end, true),
       set_config('enable_seqscan', 'off', true),
       set_config('enable_hashjoin', case when $2::boolean then 'on' else 'off' end, true),
       set_config('enable_mergejoin', 'off', true),
       set_config('jit', 'off', true)
