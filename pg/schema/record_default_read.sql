-- Migration: the record format that queues are made with. Locks nothing.
select coalesce((select (value #>> '{}')::int from waggle.setting where name = 'record_format'), 1)
