-- OpenSession, after session_settings: reads back what the server made of the settings $1, in their base units. Locks
-- nothing.
select name, setting from pg_settings where name = any ($1::text[])
