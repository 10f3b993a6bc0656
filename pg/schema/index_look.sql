-- BuildIndexes: which of the indexes $1 are missing, or were left behind by a build that was cut off. Catalogue only.
select name, i.indexrelid is not null
from unnest($1::text[]) name
left join pg_index i on i.indexrelid = to_regclass('waggle.' || quote_ident(name))
where i.indexrelid is null or not i.indisvalid
order by name
