-- EnsureInstallation: the identity of this database, beside where it really is. Takes no row lock.
select i.cluster_id, i.mesh_keys, i.id_key, i.system_identifier, i.database_oid, s.system_identifier::text, d.oid::bigint, i.former_ids, i.mesh_ring
from waggle.installation i, pg_control_system() s, pg_database d
where d.datname = current_database()
