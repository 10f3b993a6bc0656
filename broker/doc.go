// Package broker is the data plane of one broker: push, pop, ack and configure over one database.
//
// # How it works
//
// A partition is an append-only log of segments, and consuming it moves a cursor. Concurrent calls share flushes: each
// lane takes everything that waits for it, sends it as one transaction, answers, and repeats; nothing waits for a
// timer. What a broker remembers (queues, partitions, hashes, segments, leases, which partitions may have something)
// only narrows what it asks: the decision is always made by the database, under the row's lock.
//
//	push   -> group by partition -> lane of the partition -> flush: lock, compare ids, insert -> ready sets, wakes
//	pop    -> ready set of (queue, group) -> lane -> flush: claim -> segments from memory or database -> answer
//	ack    -> offsets from the lease memory -> lane -> flush: move cursor          (completed, under a live lease)
//	       -> cursor's row lock -> offsets from the log -> pure rules -> write     (everything else)
//
// # What it promises
//
// An acknowledged push is on disk and will be delivered. Offset order, commit order and time order agree within a
// partition. A pop sees every push that was acknowledged before the pop was sent, on any broker, with or without
// hints from others: no pop is answered "nothing" without a look at the database that began after the pop arrived.
// A commit whose answer was lost is asked for, never repeated; leases that it took for nobody are given back.
//
// # Locks
//
// Rows: queue, partition (by id), cursor (by partition, group), leaves. Shared flushes never wait for a row: a
// partition that a neighbour holds too long gets a flush of its own, of which only a few may wait at a time. An ack
// that no flush can apply looks its offsets up first, then locks one cursor, and uses no second connection meanwhile.
// Memory: a lane's mutex guards what waits in it; watch.mu guards ready sets and parked pops; neither is held across
// a database call, and watch.mu is never taken while a lane's mutex is held.
//
// # Where to look
//
//	push.go lane.go flight.go part.go   what a push becomes, what a flush carries, what its answer means
//	window.go lookup.go                 transaction ids: what is remembered, what must be asked
//	watch.go ready.go dispatch.go       ready sets, and how their entries reach pops
//	claims.go park.go                   what a claim's answer means; how a pop waits and ends
//	recheck.go build.go hints.go        looks at the database, sets from nothing, hints of other brokers
//	interest.go                         which hints other brokers need not send
//	pop.go answer.go subscription.go    a pop from the outside, and the messages it is given
//	ack.go ackfast.go resolve.go        acks; ackrules.go holds their rules without any IO
package broker
