-- RequestRotation and Fenced.AdvanceRotation, before they look at the registry. Locks the row: an admission, which holds
-- it FOR SHARE, has either committed and is seen in the registry, or sees the ring that is written here.
select mesh_ring, mesh_keys, mesh_rotation, mesh_rotation_by, mesh_rotation_at, mesh_step_at, mesh_rotated_at from waggle.installation
for update
