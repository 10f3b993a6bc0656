-- RequestRotation: under the lock of mesh_ring_hold.sql. $1 is the broker that was asked.
update waggle.installation
set mesh_rotation = 'requested', mesh_rotation_by = $1::text, mesh_rotation_at = clock_timestamp(), mesh_step_at = clock_timestamp()
