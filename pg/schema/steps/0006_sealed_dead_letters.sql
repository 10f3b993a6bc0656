-- scope: system
-- kind: additive
-- Encryption at rest. Dead letters of encrypted queues: the payload is then sealed anew, under the dead letter's own row.
-- Applied by the schema package, one statement per transaction; every statement may be repeated without harm.

alter table waggle.dead_letter add column if not exists sealed boolean not null default false;

-- The cluster ids that this database had before it was copied: what is encrypted is bound to the one of its time, and a
-- dump that is restored elsewhere gets another.
alter table waggle.installation add column if not exists former_ids uuid[] not null default '{}';
