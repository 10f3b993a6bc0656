-- Admit: after the gate. Locks the broker's own row; a row that was cleaned away or had left comes back.
insert into waggle.broker (start_id, name, version, http, mesh, system_needs, system_knows, record_knows, frame_min, frame_max,
  mesh_source, mesh_key, mesh_ring)
values ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13)
on conflict (start_id) do update
set http = excluded.http, mesh = excluded.mesh, mesh_source = excluded.mesh_source, mesh_key = excluded.mesh_key,
    mesh_ring = excluded.mesh_ring, seen_at = clock_timestamp(), left_at = null, draining = false
