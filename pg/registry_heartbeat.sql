-- Heartbeat: every 5 s from each broker. Updates the broker's own row and returns all that the gate decides on. No row is
-- updated when it was cleaned away or marked as left. $3 is the record format that the build knows. Brings the switches of
-- the cluster along, see setting_read.sql, and the number of the mesh's keyring; $5 is the key that the broker encrypts
-- with and $6 the ring that it works with.
with beat as (
  update waggle.broker set seen_at = clock_timestamp(), draining = $2, mesh_key = $5::text, mesh_ring = $6::bigint
  where start_id = $1 and left_at is null
  returning start_id
)
select exists (select from beat),
  array(select version from waggle.schema_step where scope = 'system' order by version),
  g.system_floor, g.record_floor,
  case when g.record_floor > $3::int
    then array(select name from waggle.queue where read_floor > $3::int order by name limit 5) else '{}' end,
  coalesce((select s.value = 'true'::jsonb from waggle.setting s where s.name = $4::text), false),
  coalesce((select i.mesh_ring from waggle.installation i), 0),
  coalesce((select i.mesh_rotation is not null from waggle.installation i), false)
from waggle.gate g
