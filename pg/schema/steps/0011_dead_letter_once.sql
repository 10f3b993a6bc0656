-- scope: system
-- kind: floor
-- A group has one dead letter of a record at most, and each says when its message was pushed. Builds before step 10 write a
-- second one when a record is buried again, and do not know the time.
-- Applied by the schema package, one statement per transaction; every statement may be repeated without harm.

-- Of doubles the newest stays: it has the last reason.
delete from waggle.dead_letter d
using waggle.dead_letter newer
where newer.partition_id = d.partition_id and newer.group_name = d.group_name and newer.record_offset = d.record_offset
  and newer.id > d.id;

-- Where retention has been, the failure is the nearest time that is known.
update waggle.dead_letter d
set pushed_at = coalesce((
  select s.created_at from waggle.segment s
  where s.partition_id = d.partition_id and s.base_offset <= d.record_offset and s.base_offset + s.count > d.record_offset
  order by s.base_offset desc limit 1), d.failed_at)
where d.pushed_at is null;

-- The column is looked through while writers go on: SET NOT NULL then believes the constraint.
alter table waggle.dead_letter drop constraint if exists dead_letter_pushed_at;
alter table waggle.dead_letter add constraint dead_letter_pushed_at check (pushed_at is not null) not valid;
alter table waggle.dead_letter validate constraint dead_letter_pushed_at;
alter table waggle.dead_letter alter column pushed_at set not null;
alter table waggle.dead_letter drop constraint if exists dead_letter_pushed_at;
