package leader

import "time"

// Holding is what is known, from outside, of the session that holds the lock.
type Holding struct {
	// MeshSaysDead is no more than a hint: brokers that do not hear each other may both reach the database.
	MeshSaysDead bool
	// Unseen is how long the leader has not stamped itself, by the server's clock. A live one does so every third of a
	// lease.
	Unseen time.Duration
}

// UnseenLimit is what a leader must have been silent for, in the database, before its session may be ended: it has then
// missed two heartbeats, and its own trust ends soon.
func UnseenLimit(lease time.Duration) time.Duration { return 2 * lease / 3 }

// Lingers says that the session belongs to a leader that is gone, and may be ended. Neither sign is enough alone.
func (h Holding) Lingers(lease time.Duration) bool {
	return h.MeshSaysDead && h.Unseen > UnseenLimit(lease)
}
