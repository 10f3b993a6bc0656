// Package seal is the cryptography of encryption at rest: the keys of an installation, and the cipher that protects
// the payloads of one stored body. It knows neither segments nor tables; it is pure but for the randomness it draws.
//
// # What a sealed body is
//
// A body is a segment's or a dead letter's: a head in clear, then payloads, each sealed by itself.
//
//	head    = length byte · key id · body nonce, 24
//	payload = AES-256-GCM(subkey, nonce, plain, additional data), its 16 bytes of tag behind it
//
//	subkey  = HKDF-SHA256(secret = the key, salt = body nonce, info = label)
//	nonce   = the payload's ordinal within the body, 12 bytes, big endian
//	additional data = length byte · label · body nonce · place · cluster id, 16 · ordinal, 8 · what the caller binds
//	place   = queue, 8 · partition, 8             of label "waggle segment"
//	          … · offset, 8 · length, 4 · group   of label "waggle dead letter"
//
// # Why no nonce repeats under a key
//
// GCM breaks when a nonce is used twice under one key, and 96 random bits are too few for a log that is written for years
// by brokers that know nothing of each other. So every body has a key of its own, derived from a nonce of 192 random bits:
// the chance that two bodies of 2^48 ever share one is below 2^-96. Within a body, the cipher itself counts the payloads:
// no caller chooses an ordinal. A body that is built again, because its flush was refused, draws a new nonce.
//
// # What the additional data is for
//
// A payload opens only where it was sealed: not at another ordinal, not in another segment, partition, queue or
// installation, not as a dead letter. What stays readable beside it, the caller binds to it: a record's transaction id
// cannot be exchanged either. The offset is not bound, it is not known yet when a segment is sealed; the segment's row is
// the place.
//
// An installation that was restored from a dump has a new cluster id and remembers its former ones; bodies open under
// any of them, and new ones are sealed under the current.
package seal
