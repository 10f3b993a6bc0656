package pgtest

import (
	"context"
	"fmt"
	"io/fs"
	"net"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/zap/zaptest"

	"waggle/pg/local"
)

// Standby is a second dedicated server that follows a first one by streaming replication, asynchronously.
type Standby struct {
	*Server
	primary *Server
	stream  *Proxy
}

// NewStandby copies the primary and starts a server that follows it, which takes some seconds.
func NewStandby(t testing.TB, primary *Server) *Standby {
	t.Helper()
	dir := t.TempDir()
	copyServer(t, primary, dir)
	stream := NewProxy(t, primary.SuperURL())
	s := &Standby{primary: primary, stream: stream, Server: &Server{t: t, options: local.Options{
		Dir: dir, Database: "waggle", Logger: zaptest.NewLogger(t),
		Settings: map[string]string{"primary_conninfo": conninfo(t, stream.URL())},
	}}}
	s.Start()
	s.options.Port = s.running.Port()
	t.Cleanup(s.Stop)
	s.CatchUp()
	return s
}

// Lag keeps from the standby what the primary writes from now on.
func (s *Standby) Lag() { s.stream.Blackhole(true) }

// CatchUp waits until the standby shows all that the primary has written.
func (s *Standby) CatchUp() {
	s.t.Helper()
	primary, standby := connect(s.t, s.primary.SuperURL()), connect(s.t, s.SuperURL())
	defer primary.Close(context.Background())
	defer standby.Close(context.Background())
	var written string
	require.NoError(s.t, primary.QueryRow(s.t.Context(), "select pg_current_wal_flush_lsn()::text").Scan(&written))
	require.Eventually(s.t, func() (there bool) {
		err := standby.QueryRow(s.t.Context(), "select coalesce(pg_last_wal_replay_lsn() >= $1::pg_lsn, false)", written).Scan(&there)
		return err == nil && there
	}, time.Minute, 10*time.Millisecond, "the standby does not follow")
}

// Promote makes the standby a server that takes writes, on a timeline of its own.
func (s *Standby) Promote() {
	s.t.Helper()
	conn := connect(s.t, s.SuperURL())
	defer conn.Close(context.Background())
	var promoted bool
	require.NoError(s.t, conn.QueryRow(s.t.Context(), "select pg_promote(true, 60)").Scan(&promoted))
	require.True(s.t, promoted, "the standby was not promoted in time")
}

// On is the URL of the same database on another server, as the same ordinary role.
func (d *Database) On(server *Server) string { return asRole(withDatabase(server.SuperURL(), d.Name)) }

// copyServer makes dir the folder of a server like the primary.
func copyServer(t testing.TB, primary *Server, dir string) {
	t.Helper()
	programs, _, err := local.FindPrograms(t.Context())
	require.NoError(t, err)
	data := filepath.Join(dir, "data")
	backup := exec.CommandContext(t.Context(), filepath.Join(programs, "pg_basebackup"), "--dbname", primary.SuperURL(),
		"--pgdata", data, "--write-recovery-conf", "--wal-method", "stream", "--checkpoint", "fast", "--no-sync")
	said, err := backup.CombinedOutput()
	require.NoError(t, err, "copy the primary: %s", said)
	password, err := os.ReadFile(filepath.Join(primary.running.Dir(), "password"))
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(filepath.Join(dir, "password"), password, 0o600))
	// Root may copy but not run a server: the files go to whom those of the primary belong to.
	info, err := os.Stat(filepath.Join(primary.running.Dir(), "data"))
	require.NoError(t, err)
	owner := info.Sys().(*syscall.Stat_t)
	if os.Geteuid() != 0 {
		return
	}
	require.NoError(t, filepath.WalkDir(data, func(path string, _ fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		return os.Lchown(path, int(owner.Uid), int(owner.Gid))
	}))
}

// conninfo says in libpq's words where a URL leads.
func conninfo(t testing.TB, address string) string {
	t.Helper()
	u, err := url.Parse(address)
	require.NoError(t, err)
	host, port, err := net.SplitHostPort(u.Host)
	require.NoError(t, err)
	password, _ := u.User.Password()
	return fmt.Sprintf("host=%s port=%s user=%s password=%s sslmode=disable application_name=standby", host, port, u.User.Username(), password)
}
