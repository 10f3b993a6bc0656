#!/bin/sh
# Makes sure that the server programs of PostgreSQL 15 or newer are on this machine. They need not be on PATH, and no server
# needs to run: waggle starts one of its own. Where there are none, and we are root on a system with apt-get, they are
# installed; else one line says what to do.
set -eu

want=15

# The same places as pg/local looks at.
found() {
	for program in "$(command -v postgres 2>/dev/null || true)" \
		/usr/lib/postgresql/*/bin/postgres /usr/pgsql-*/bin/postgres /usr/lib/postgresql*/bin/postgres \
		/usr/libexec/postgresql*/postgres /usr/local/pgsql/bin/postgres \
		/opt/homebrew/opt/postgresql*/bin/postgres /usr/local/opt/postgresql*/bin/postgres \
		/home/linuxbrew/.linuxbrew/opt/postgresql*/bin/postgres \
		/Applications/Postgres.app/Contents/Versions/*/bin/postgres; do
		[ -x "$program" ] || continue
		major=$("$program" --version 2>/dev/null | sed -n 's/.*(PostgreSQL) \([0-9]*\).*/\1/p')
		[ "${major:-0}" -ge "$want" ] && return 0
	done
	return 1
}

refuse() {
	echo "PostgreSQL $want or newer is missing: $1" >&2
	exit 1
}

if found; then exit 0; fi
command -v apt-get >/dev/null 2>&1 || refuse "install your system's package of the PostgreSQL server"
[ "$(id -u)" = 0 ] || refuse "run: sudo apt-get install postgresql"

echo "installing PostgreSQL from the system's packages" >&2
export DEBIAN_FRONTEND=noninteractive
log=$(mktemp)
saved=$(mktemp)
configuration=/etc/postgresql-common/createcluster.conf
cleanup() {
	[ ! -s "$saved" ] || cp -p "$saved" "$configuration"
	rm -f "$saved" "$log"
}
trap cleanup EXIT
quietly() { "$@" >"$log" 2>&1 || { cat "$log" >&2; refuse "\`$*\` failed"; }; }

quietly apt-get update
newest=$(apt-cache pkgnames postgresql- | sed -n 's/^postgresql-\([0-9][0-9]*\)$/\1/p' | sort -n | tail -n 1)
[ "${newest:-0}" -ge "$want" ] || refuse "this system's packages offer ${newest:-none}; add the repository apt.postgresql.org"

# Debian's package sets up and starts a server for the whole machine, which nobody asked for.
quietly apt-get install -y --no-install-recommends postgresql-common
cp -p "$configuration" "$saved"
echo "create_main_cluster = false" >>"$configuration"
quietly apt-get install -y --no-install-recommends "postgresql-$newest"

found || refuse "the package postgresql-$newest was installed and brought no server program"
