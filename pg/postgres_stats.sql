-- PostgresStats: what the server says of this database, as one JSON object with the contract's keys. Locks nothing.
with tables as (
  select s.*, t.heap_blks_read, t.heap_blks_hit, t.idx_blks_read, t.idx_blks_hit
  from pg_stat_user_tables s join pg_statio_user_tables t on t.relid = s.relid
  where s.schemaname = 'waggle'
), d as (
  select * from pg_stat_database where datname = current_database()
)
select json_build_object(
  'timestamp', to_char(clock_timestamp() at time zone 'utc', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"'),
  'database', json_build_object('name', current_database(), 'sizeBytes', pg_database_size(current_database()),
                                'version', current_setting('server_version')),
  'databaseCache', (select json_build_object('blocksRead', d.blks_read, 'blocksHit', d.blks_hit,
     'hitRatio', round(d.blks_hit::numeric / nullif(d.blks_hit + d.blks_read, 0), 4)) from d),
  'tableCache', coalesce((select json_agg(json_build_object('table', relname, 'read', heap_blks_read, 'hit', heap_blks_hit)
     order by relname) from tables), '[]'::json),
  'indexCache', coalesce((select json_agg(json_build_object('table', relname, 'read', idx_blks_read, 'hit', idx_blks_hit)
     order by relname) from tables), '[]'::json),
  'cacheSummary', (select json_build_object('tableHitRatio', round(sum(heap_blks_hit) / nullif(sum(heap_blks_hit + heap_blks_read), 0), 4),
     'indexHitRatio', round(sum(idx_blks_hit) / nullif(sum(idx_blks_hit + idx_blks_read), 0), 4)) from tables),
  'deadTuples', coalesce((select json_agg(json_build_object('table', relname, 'live', n_live_tup, 'dead', n_dead_tup)
     order by n_dead_tup desc, relname) from tables), '[]'::json),
  'hotUpdates', coalesce((select json_agg(json_build_object('table', relname, 'updates', n_tup_upd, 'hot', n_tup_hot_upd)
     order by n_tup_upd desc, relname) from tables where n_tup_upd > 0), '[]'::json),
  'activeQueries', (select json_build_object('total', count(*), 'active', count(*) filter (where state = 'active'),
     'idle', count(*) filter (where state = 'idle'), 'idleInTransaction', count(*) filter (where state like 'idle in transaction%'))
     from pg_stat_activity where datname = current_database()),
  'autovacuumStatus', coalesce((select json_agg(json_build_object('table', relname, 'lastAutovacuum', last_autovacuum,
     'autovacuums', autovacuum_count) order by relname) from tables), '[]'::json),
  'bufferConfig', json_build_object('sharedBuffers', current_setting('shared_buffers'),
     'effectiveCacheSize', current_setting('effective_cache_size'), 'workMem', current_setting('work_mem')),
  'bufferUsage', (select json_build_object('temporaryFiles', d.temp_files, 'temporaryBytes', d.temp_bytes, 'deadlocks', d.deadlocks) from d),
  'tableSizes', coalesce((select json_agg(json_build_object('table', relname, 'bytes', pg_total_relation_size(relid))
     order by pg_total_relation_size(relid) desc, relname) from tables), '[]'::json)
)
