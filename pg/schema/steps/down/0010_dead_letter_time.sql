alter table waggle.dead_letter drop column if exists pushed_at;
