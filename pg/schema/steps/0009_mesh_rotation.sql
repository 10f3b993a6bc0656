-- scope: system
-- kind: additive
-- Rotation of the mesh key: where it stands, and what each broker has confirmed of it.
-- Applied by the schema package, one statement per transaction; every statement may be repeated without harm.

-- mesh_ring is the number of the keyring in mesh_keys and rises whenever that changes. mesh_rotation is the step that the
-- ring is in, null while no rotation is under way: requested, install, use or remove.
alter table waggle.installation add column if not exists mesh_ring bigint not null default 1;
alter table waggle.installation add column if not exists mesh_rotation text;
alter table waggle.installation add column if not exists mesh_rotation_by text;
alter table waggle.installation add column if not exists mesh_rotation_at timestamptz;
alter table waggle.installation add column if not exists mesh_step_at timestamptz;
alter table waggle.installation add column if not exists mesh_rotated_at timestamptz;

-- Where a broker has its mesh keys from (database, file, off), the fingerprint of the one that it encrypts with, and the
-- number of the ring that it works with. Null for brokers of builds that know of no rotation.
alter table waggle.broker add column if not exists mesh_source text;
alter table waggle.broker add column if not exists mesh_key text;
alter table waggle.broker add column if not exists mesh_ring bigint;
