// Package schema holds the numbered steps of the database schema, applies them at boot, and decides whether a build and a
// database fit each other.
//
// Steps are files, steps/NNNN_name.sql, numbered from 1 without a gap in each of two scopes: system (control tables) and
// queue (the record format of one queue). A step never changes once it was released, and each of its statements may be
// repeated without harm: an apply that was killed begins its step again. A step is additive (older builds go on working), or
// it raises the floor. The header says which:
//
//	-- scope: system
//	-- kind: additive
//
// The trail, waggle.schema_step, records what was applied. The current version of a database is the end of the unbroken run
// of recorded steps.
//
// The gate (gate.go) is pure. A build needs a lowest version, and knows a highest; a database is at a current version, and
// has a floor below which no build may run. A build that adds a floor-raising step n ships with needs < n; only a later
// release may raise needs to n.
//
// The shape (shape.go) is what tables look like after each step that this build may run on; a broker compares before it runs.
// Indexes that no build needs for correctness are no steps: the leader builds them beside traffic (index.go). The format of a
// queue's records moves by itself (records.go), under the same lock on the gate as the floor.
//
// The apply (apply.go) is serialised by an advisory lock, taken by polling: a session that waits for a lock holds a snapshot
// back and cannot say whom it waits for. Each statement is a transaction of its own with a short lock_timeout, because a
// DDL statement that waits for its lock stalls all traffic behind it.
package schema
