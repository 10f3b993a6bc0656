-- Recognise: what else the schema holds, whether the trail has the columns of ours, and the steps that it names. Catalogue only.
select array(select relname::text from pg_class where relnamespace = to_regnamespace('waggle') and relkind in ('r', 'p', 'v', 'm', 'f') order by 1),
  (select count(*) from pg_attribute where attrelid = to_regclass('waggle.schema_step') and not attisdropped
     and attname in ('scope', 'version', 'name', 'applied_at', 'build')) = 5
