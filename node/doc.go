// Package node is one running broker: it takes a checked configuration, builds every part, starts them in order and
// takes them down in reverse. It also runs the dev cluster, which is a private PostgreSQL and some brokers as
// processes.
//
//	New -> Start: database, schema, registry, mesh, data plane, campaign, listener, ready
//	    -> Run:   until the context ends, or a part fails
//	    -> Stop:  resign, not ready, parked pops go over the drain delay, listener closes, calls in flight finish,
//	              data plane, mesh, registry, database
//
// A part that fails for good takes the process down with one line. What comes back by itself (a database that is
// away for a while, a peer that is gone) does not.
package node
