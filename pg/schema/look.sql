-- look: what the apply and the gate may rely on, before they name it. Catalogue only.
select exists (select from pg_namespace where nspname = 'waggle'), to_regclass('waggle.schema_step') is not null
