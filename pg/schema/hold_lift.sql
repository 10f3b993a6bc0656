-- Up: locks the setting's row.
delete from waggle.setting where name = 'schema_hold'
