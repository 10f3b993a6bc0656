-- MeshRing: the keyring and where its rotation stands. Takes no row lock.
select mesh_ring, mesh_keys, mesh_rotation, mesh_rotation_by, mesh_rotation_at, mesh_step_at, mesh_rotated_at from waggle.installation
