-- Shape: primary keys, unique and foreign keys and checks of all tables of the schema, with the columns that they are about. Catalogue
-- only.
select c.relname, k.conname, k.contype::text, array(
    select a.attname::text from unnest(k.conkey) with ordinality as n (num, ord)
    join pg_attribute a on a.attrelid = k.conrelid and a.attnum = n.num
    order by n.ord), pg_get_constraintdef(k.oid)
from pg_constraint k join pg_class c on c.oid = k.conrelid
where c.relnamespace = to_regnamespace('waggle') and k.contype in ('p', 'u', 'f', 'c') and k.convalidated
order by c.relname, k.conname
