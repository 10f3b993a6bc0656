-- Apply, Migration: which tables of early steps are there. Catalogue only.
select to_regclass('waggle.gate') is not null, to_regclass('waggle.setting') is not null, to_regclass('waggle.broker') is not null
