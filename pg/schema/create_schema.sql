-- Apply: only when the schema was not there a moment ago, because IF NOT EXISTS asks for the CREATE right all the same.
create schema if not exists waggle
