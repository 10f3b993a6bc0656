// Package pgtest gives tests a real PostgreSQL.
//
// New makes a database for one test on a server that all test binaries of a user share. The first binary that needs it
// starts it; half a minute after the last one has ended it stops by itself and removes its data. Its folder is
// waggle-pgtest-<uid> below the folder for temporary files; removing that folder stops it at once. New databases are copies
// of a template with the schema in it, which takes some tens of milliseconds. A test that caused a deadlock fails.
//
// NewServer starts a server for one test alone, which may stop, kill and restart it; NewStandby one that follows
// another and can be promoted. NewProxy stands between a client and a server and cuts, delays or swallows what they say,
// also exactly between a COMMIT and its answer.
//
// How the sharing works: each test binary holds a shared lock on the file users for as long as it lives. A detached process,
// the keeper, is the test binary itself, started once more; it owns the server, and looks every second whether it could have
// that lock for itself. When it could for half a minute, it takes it, stops the server, and goes.
package pgtest
