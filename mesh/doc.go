// Package mesh tells a broker who else is alive and carries hints between brokers.
//
// Nothing that is right or wrong ever depends on it. Postgres decides; a frame only says where it may be worth
// looking. With the mesh switched off, or losing every packet, brokers give the same answers and are only slower.
// For that reason a frame is sent once, as a datagram, and never waited for.
//
// # Membership
//
// Gossip and failure detection are hashicorp/memberlist. A broker needs no configuration to find the others: it
// listens ([Mesh.Start]), the node writes its address into the registry, calls [Mesh.Join], and the mesh reads the
// rows of the others ([Registry]) and joins each of them. Rows and seeds that are missing from the view are tried
// again every 500 ms for the first 15 s and every 15 to 30 s from then on, because the library never dials a dead
// peer again by itself. A peer's name is its broker name and its start id, so a restart is a new peer and no name is
// ever in conflict; the label of every packet is the cluster id, so foreign clusters do not merge.
//
// What a peer is and can do stands in its node meta ([Meta]): start id, build, frame range, schema range, HTTP
// address, flags. The layout is fixed and only ever appends.
//
// # States
//
//	          join                     not heard for 2 beacons
//	(unknown) ----> alive <----------------------------------> suspect
//	                  |                 any frame                 |
//	                  +---- its leave frame ------> left <--------+  or "left" in its registry row
//	                  +---- library gave it up ---> dead <--------+
//
// The library's public interface cannot tell suspect, dead and left apart, so the states are ours: a v2 peer that
// sent no frame for two beacons is suspect; one that said so in a frame or in its registry row has left; one that
// the library gave up without that is dead. When the library reports a loss, the registry is read at once and the
// peer stays suspect until that read (or 2 s) decides. Left and dead peers stay listed for 60 s. A peer that speaks
// only v1 sends neither beacons nor leave frames and is alive for as long as the library lists it.
// [Mesh.View] is an immutable snapshot.
//
// # Frames
//
// A frame is a version byte and msgpack, at most 1,100 bytes, of one [Kind]: wake, invalidation, leader hint, leave,
// beacon or interest. It is decoded by hand from primitives: a length is checked against the bytes left before anything is
// allocated, surplus fields are skipped, a missing field or a trailing byte is an error, an unknown kind is counted
// and skipped. The files in testdata pin the bytes of each version for ever.
//
//	v1  [kind, queue, partition?]
//	v2  [kind, origin, destination, number, body]
//	    wake          body = [[tenant|nil, queue, [partition, ...]|nil], ...]     nil partitions: the whole queue
//	    invalidation  body = [[tenant|nil, queue, options version, flags, group|nil], ...]
//	    leader hint   body = nil
//	    leave         body = nil
//	    beacon        body = [round, echo, generation?]
//	    interest      body = [generation, bits|nil]                                nil bits: the generation that is held
//
// Origin is a start id (16 bytes), destination the last 8 bytes of one, number the place of this frame in what the
// origin sent to that destination (high 32 bits: when the origin opened the stream; low 32: 1, 2, 3, ...). Interest came
// later than the other kinds: it has number 0, because a build that does not know it would miss its number.
//
// v1 knows no tenant. An item without one goes to every tenant that holds a queue of that name: the receiver gets it
// with TenantKnown false and fans it out. Each peer is sent the highest version that both know ([VersionFor]).
//
// # Sending
//
// Each peer has a sender of its own with a bounded, coalescing backlog. The first frame leaves at once, then at most
// one per 2 ms (beacons, hints and leave frames, of which there are few, do not count). In the long run all peers
// together are sent at most 800 of them a second, however many peers there are. More than 16 waiting partitions of a
// queue (4 towards v1), or names too long for a frame, become one item for the whole queue. When the backlog is full the oldest
// queue is dropped, counted, and its number is left out, so that the receiver notices a gap. A peer that is slow, stuck
// or gone delays nobody else.
//
// A peer from which the echo of a beacon is missing loses packets: for 30 s, a frame of wakes or invalidations that
// nothing follows, so that nothing would show its loss, is sent again after 5, 15, 35, 75 and 155 ms, under numbers
// of its own.
//
// # Interest
//
// A broker summarizes the queues whose wakes do something there in a Bloom filter ([Config.Interests],
// [Mesh.Interested]) and sends it, with a generation, to the peers whose beacons carry a generation of their own. A peer
// answers with the generation that it holds; until it does, the summary is sent again. Beacons tell the current
// generation, so a summary that was lost is asked for. A wake is left out only for a peer whose newest known summary
// was confirmed within three beacons and does not hold the queue.
//
//	consumer's broker                                      other broker
//	Interested(queue) --- interest [g, bits] ------------> keeps it
//	                  <-- interest [g, nil] -------------- holds g
//	all hold g: Announced, a look for what was missed
//	                  --- beacon [round, false, g] ------> g is confirmed; or asks, and sends every wake meanwhile
//
// Gained interest is told at once, lost interest is found by a review every 15 s. Invalidations are never left out.
//
// # Receiving
//
// Callbacks of the library copy, hand over to a bounded inbox and return. One goroutine decodes and keeps count of
// numbers; a second one calls the [Handler]. A gap is a number that is still missing after 256 later ones or 200 ms
// (the library delivers newest first, so disorder is normal); every v2 peer sends a beacon each second, which shows
// the last number even when nothing else is sent. A gap, a stream that opens, a peer that joins or an inbox that ran
// over asks the handler to repair what hints it may have missed ([Handler.Repair]). A number that comes twice within the
// last 1,024 is a replay, an older one stale; both are counted and dropped before they make anybody heard.
//
// The echo of a beacon is answered before the handler sees anything. waggle_mesh_beacon_seconds, from sending a
// beacon to the echo of the last live peer, is the one number to watch; waggle_mesh_unheard also shows a network
// that carries TCP and loses UDP.
//
// # Keys
//
// Packets are encrypted with a keyring that lives in the database: who may not read it may not speak here. The ring
// is read again when a packet cannot be decrypted, at most once every 10 s, and replaced by [Mesh.SetKeys]. A rotation
// installs the new key everywhere, then lets everybody use it, then removes the old one; the steps and who has
// confirmed them are kept in the database and decided by the leader, not here. A ring may also come from a file
// ([ParseKeys]).
package mesh
