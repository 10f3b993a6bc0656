-- Flush (c), first half: moves the cursors of acks whose offsets the broker resolved from memory and that complete
-- everything up to upto under a lease; at most one ack a cursor. Cursors are locked in (partition, group) order; one
-- that a neighbour holds is skipped. Answers the state before the move, and whether it was made; a cursor skipped or
-- gone is missing.
with input as materialized (
  select * from unnest($1::bigint[], $2::uuid[], $3::bigint[]) as i (cursor_id, lease, upto)
), locked as materialized (
  select c.id, c.committed, c.batch_end, c.lease, c.lease_expires_at > clock_timestamp() as live, i.lease as named, i.upto
  from input i
  join waggle.cursor c on c.id = i.cursor_id
  order by c.partition_id, c.group_id
  for no key update of c skip locked
), decided as materialized (
  select l.*, coalesce(l.live and l.lease = l.named and l.upto > l.committed and l.upto <= l.batch_end, false) as accept
  from locked l
), moved as (
  update waggle.cursor c
  set committed = d.upto,
      batch_end = case when d.upto < d.batch_end then c.batch_end end,
      lease = case when d.upto < d.batch_end then c.lease end,
      lease_expires_at = case when d.upto < d.batch_end then c.lease_expires_at end,
      retry = case when d.upto < d.batch_end then c.retry else 0 end
  from decided d
  where c.id = d.id and d.accept
)
select d.id, d.committed, coalesce(d.batch_end, -1), coalesce(d.live and d.lease is not null, false), d.accept from decided d
