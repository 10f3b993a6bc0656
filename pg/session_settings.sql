-- OpenSession, once per connection: sets the settings $1 to $2 for the session. Locks nothing.
select set_config(name, value, false) from unnest($1::text[], $2::text[]) as s (name, value)
