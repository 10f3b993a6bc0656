-- Statistics.Pass: takes up to $2 touched partitions up to row $1, skipping those that another pass has taken. Locks and
-- deletes touched rows; they come back if the transaction fails.
with picked as (
  select t.id from waggle.touched t where t.id <= $1::bigint order by t.id limit $2::int for update skip locked
), taken as (
  delete from waggle.touched t using picked p where t.id = p.id returning t.partition_id
)
select array(select distinct k.partition_id from taken k order by 1)
