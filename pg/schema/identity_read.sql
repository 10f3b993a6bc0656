-- NewIdentity: who the database says it is, and where it says it lives. Locks nothing.
select cluster_id, system_identifier, database_oid from waggle.installation
