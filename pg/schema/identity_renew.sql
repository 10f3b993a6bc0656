-- RenewIdentity: a copy of another database gets an identity of its own. Of brokers that start on it at once, the one
-- that still finds the place it came from ($3, $4) wins. The id key stays: ids that clients hold must go on leading back.
-- So does the cluster id, among the former ones: what is encrypted is bound to it. A rotation of the mesh key ends with the keys.
-- Locks the row, then every row of the registry: its brokers belong to the original.
with renewed as (
  update waggle.installation i
  set former_ids = former_ids || cluster_id, cluster_id = $1, mesh_keys = $2, mesh_ring = mesh_ring + 1, mesh_rotation = null,
      system_identifier = s.system_identifier::text, database_oid = d.oid
  from pg_control_system() s, pg_database d
  where d.datname = current_database() and i.system_identifier = $3 and i.database_oid = $4
  returning i.id
), left_behind as (
  update waggle.broker set left_at = clock_timestamp() where left_at is null and exists (select from renewed)
)
select exists (select from renewed)
