alter table waggle.dead_letter drop constraint if exists dead_letter_pushed_at;
alter table waggle.dead_letter alter column pushed_at drop not null;
