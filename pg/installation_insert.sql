-- EnsureInstallation: the first broker of a database wins, all others read its row back. Waits for a concurrent insert of
-- the one row.
insert into waggle.installation (cluster_id, mesh_keys, id_key, system_identifier, database_oid)
select $1, $2, $3, s.system_identifier::text, d.oid
from pg_control_system() s, pg_database d
where d.datname = current_database()
on conflict (id) do nothing
