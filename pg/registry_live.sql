-- LiveBrokers: the mesh's seeds, and who a raised floor would shut out, and who holds which mesh keys. Takes no row lock. $1 is the limit in seconds.
select start_id, name, version, http, mesh, system_needs, system_knows, record_knows, frame_min, frame_max, draining,
  started_at, extract(epoch from clock_timestamp() - seen_at)::float8, mesh_source, mesh_key, mesh_ring
from waggle.broker
where left_at is null and seen_at > clock_timestamp() - make_interval(secs => $1::float8)
order by name, start_id
