-- Fenced.AdvanceRotation: the next ring, under the lock of mesh_ring_hold.sql. An empty step $3 ends the rotation.
update waggle.installation
set mesh_ring = $1::bigint, mesh_keys = $2::bytea[], mesh_rotation = nullif($3::text, ''), mesh_step_at = clock_timestamp(),
    mesh_rotated_at = case when $3::text = '' then clock_timestamp() else mesh_rotated_at end
