-- Shape: the indexes of all tables of the schema that belong to no key. Catalogue only.
select c.relname, x.relname, pg_get_indexdef(i.indexrelid)
from pg_index i join pg_class c on c.oid = i.indrelid join pg_class x on x.oid = i.indexrelid
where c.relnamespace = to_regnamespace('waggle') and i.indisvalid
  and not exists (select from pg_constraint k where k.conindid = i.indexrelid and k.contype in ('p', 'u'))
order by c.relname, x.relname
