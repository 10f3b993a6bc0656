-- Shape: the columns of all tables of the schema. Catalogue only.
select c.relname, a.attname, format_type(a.atttypid, a.atttypmod),
  case when a.attcollation <> t.typcollation then l.collname else '' end, a.attnotnull,
  coalesce(pg_get_expr(d.adbin, d.adrelid), ''), a.attidentity <> ''
from pg_class c
join pg_attribute a on a.attrelid = c.oid and a.attnum > 0 and not a.attisdropped
join pg_type t on t.oid = a.atttypid
left join pg_collation l on l.oid = a.attcollation
left join pg_attrdef d on d.adrelid = c.oid and d.adnum = a.attnum
where c.relnamespace = to_regnamespace('waggle') and c.relkind in ('r', 'p')
order by c.relname, a.attnum
