package node_test

import (
	"fmt"
	"net"
	"net/url"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"waggle/client"
	"waggle/pg/pgtest"
)

// A real PgBouncer that lends its connections for one transaction at a time stands between a broker and the lock. The
// broker never campaigns and leaves no lock behind; it says so once, and serves.
func TestBehindPgBouncerABrokerServesAndDoesNotLead(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	m := newMember(t, "behind-a-pooler", db.URL, "WAGGLE_DIRECT_URL="+startPgBouncer(t, db.URL))
	m.launch(t)
	m.awaitListening(t)
	line := m.log.await(t, `"code":"WG0201"`)
	require.Contains(t, line, "transaction pooler")
	require.Contains(t, line, "--direct-url")
	require.GreaterOrEqual(t, m.metric(t, `waggle_leader_campaigns_total{outcome="unfit"}`), 1.0)

	cl := newClient(t, m.url)
	_, err := cl.Push(t.Context(), []client.Item{{Queue: "served"}})
	require.NoError(t, err)
	got, err := cl.Pop(t.Context(), client.PopRequest{Queue: "served", AutoAck: true})
	require.NoError(t, err)
	require.Len(t, got.Messages, 1)

	require.Nil(t, m.leader(t).Name)
	require.Zero(t, m.metric(t, `waggle_leader_campaigns_total{outcome="won"}`))
	require.Equal(t, 1, strings.Count(m.log.String(), `"code":"WG0201"`))
	var locks int
	require.NoError(t, connectTo(t, db.SuperURL).QueryRow(t.Context(), "select count(*) from pg_locks where locktype = 'advisory' and "+
		"database = (select oid from pg_database where datname = current_database())").Scan(&locks))
	require.Zero(t, locks, "nothing was left on the pooled backends")
}

// startPgBouncer runs it in transaction mode in front of a database, and returns the URL that leads through it.
func startPgBouncer(t *testing.T, database string) string {
	t.Helper()
	program, err := exec.LookPath("pgbouncer")
	if err != nil {
		if program, err = exec.LookPath("/usr/sbin/pgbouncer"); err != nil {
			t.Skip("*** LEFT OUT: a real PgBouncer, because it is not installed (Debian's package pgbouncer)")
		}
	}
	target, err := url.Parse(database)
	require.NoError(t, err)
	password, _ := target.User.Password()
	host, port, err := net.SplitHostPort(freeAddress(t))
	require.NoError(t, err)
	dir := t.TempDir()
	users := filepath.Join(dir, "users")
	settings := filepath.Join(dir, "pgbouncer.ini")
	write := func(path, text string) { require.NoError(t, os.WriteFile(path, []byte(text), 0o644)) }
	write(users, fmt.Sprintf("%q %q\n", target.User.Username(), password))
	write(settings, fmt.Sprintf(`[databases]
* = host=%s port=%s
[pgbouncer]
listen_addr = %s
listen_port = %s
unix_socket_dir =
auth_type = trust
auth_file = %s
pool_mode = transaction
`, target.Hostname(), target.Port(), host, port, users))
	arguments := []string{settings}
	if os.Geteuid() == 0 {
		// It refuses to run as root, and whom it becomes has to read its settings.
		who, err := user.Lookup("nobody")
		require.NoError(t, err)
		arguments = []string{"--user", who.Username, settings}
		for parent := dir; strings.HasPrefix(parent, filepath.Clean(os.TempDir())+"/"); parent = filepath.Dir(parent) {
			require.NoError(t, os.Chmod(parent, 0o755))
		}
	}
	pooler := exec.Command(program, arguments...)
	log := newLogBook()
	pooler.Stdout, pooler.Stderr = log, log
	require.NoError(t, pooler.Start())
	t.Cleanup(func() {
		_ = pooler.Process.Signal(syscall.SIGKILL)
		_ = pooler.Wait() // the state says it all
		if t.Failed() {
			t.Logf("the log of PgBouncer:\n%s", log)
		}
	})
	eventually(t, "PgBouncer listens", func() bool {
		conn, err := net.DialTimeout("tcp", net.JoinHostPort(host, port), time.Second)
		if err == nil {
			_ = conn.Close()
		}
		return err == nil
	})
	target.Host = net.JoinHostPort(host, port)
	return target.String()
}
