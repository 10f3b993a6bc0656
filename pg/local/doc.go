// Package local runs a private PostgreSQL server for one user of one machine: for `waggle dev` and for tests. It is not
// a way to run PostgreSQL in production.
//
// What it promises. The server listens on 127.0.0.1 only, asks for a random password, and keeps everything it has in one
// folder: the data survives a restart with the same folder, and removing the folder removes the server. A folder belongs
// to one process at a time. Whatever an earlier process left behind after a kill -9, a stale lock file or a server that
// still runs, does not prevent the next start: such a server is shut down cleanly first.
//
// The folder:
//
//	lock        held (flock) by the process that owns the server; says its pid
//	data/       the data directory; made under the name data.new and renamed when complete
//	password    of the superuser, readable by us alone
//	server.log  what the server says
//
// The server is a child in a process group of its own, so that Ctrl-C in a terminal reaches us and not it: whoever started
// it decides that it stops last.
//
// PostgreSQL refuses to run as root. For root the server runs under the account that owns the folder, or "postgres", or
// "nobody"; account.go tells how that account gets at a folder below a closed one such as /root.
package local
