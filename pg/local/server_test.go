package local

import (
	"bytes"
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
	"go.uber.org/zap/zaptest"
)

// TestMain also plays the owner that is killed: a process that starts a server, says so, and waits for its end.
func TestMain(m *testing.M) {
	if dir := os.Getenv("WAGGLE_TEST_OWNER"); dir != "" {
		if _, err := Start(context.Background(), Options{Dir: dir, NoSync: true}); err != nil {
			os.Stderr.WriteString(err.Error())
			os.Exit(1)
		}
		os.Stdout.WriteString("ready\n")
		select {}
	}
	goleak.VerifyTestMain(m)
}

func start(t *testing.T, options Options) *Server {
	t.Helper()
	options.Logger, options.NoSync = zaptest.NewLogger(t), true
	server, err := Start(t.Context(), options)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, server.Stop(context.Background())) })
	return server
}

func query[T any](t *testing.T, url, statement string) T {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), url)
	require.NoError(t, err)
	defer conn.Close(context.Background())
	var value T
	require.NoError(t, conn.QueryRow(t.Context(), statement).Scan(&value))
	return value
}

func execute(t *testing.T, url, statement string) {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), url)
	require.NoError(t, err)
	defer conn.Close(context.Background())
	_, err = conn.Exec(t.Context(), statement)
	require.NoError(t, err)
}

// closedFolder lies below a folder that nobody else may enter, as a clone in root's home does.
func closedFolder(t *testing.T) string {
	t.Helper()
	closed := filepath.Join(t.TempDir(), "closed")
	require.NoError(t, os.Mkdir(closed, 0o700))
	return filepath.Join(closed, "clone", ".waggle", "postgres")
}

func TestServerKeepsItsDataOverARestart(t *testing.T) {
	t.Parallel()
	dir := closedFolder(t)
	first := start(t, Options{Dir: dir, Settings: map[string]string{"max_connections": "17"}})
	require.Equal(t, "17", query[string](t, first.URL(), "show max_connections"))
	require.Equal(t, "waggle/UTF8/C", query[string](t, first.URL(), `select current_database() || '/' ||
		pg_encoding_to_char(encoding) || '/' || datcollate from pg_database where datname = current_database()`))
	execute(t, first.URL(), "create table kept as select 42 as n")
	require.NoError(t, first.Stop(t.Context()))
	require.NoError(t, first.Wait(), "a fast shutdown is an orderly end")

	second := start(t, Options{Dir: dir})
	require.Equal(t, 42, query[int](t, second.URL(), "select n from kept"))
}

func TestServerRecoversOnTheSamePortAfterItWasKilled(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	first := start(t, Options{Dir: dir})
	execute(t, first.URL(), "create table kept as select 42 as n")
	require.NoError(t, first.Kill())
	require.Error(t, first.Wait())
	require.FileExists(t, filepath.Join(dir, "data", "postmaster.pid"))

	second := start(t, Options{Dir: dir, Port: first.Port()})
	require.Equal(t, first.URL(), second.URL())
	require.Equal(t, 42, query[int](t, second.URL(), "select n from kept"))
}

func TestServerOfAKilledOwnerIsShutDownAndReplaced(t *testing.T) {
	t.Parallel()
	dir := closedFolder(t)
	owner := exec.Command(os.Args[0])
	owner.Env = append(os.Environ(), "WAGGLE_TEST_OWNER="+dir)
	output, err := owner.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, owner.Start())
	line := make([]byte, 6)
	_, err = output.Read(line)
	require.NoError(t, err)
	require.Equal(t, "ready\n", string(line))

	_, err = Start(t.Context(), Options{Dir: dir})
	inUse, ok := errors.AsType[*InUseError](err)
	require.True(t, ok, "a folder has one owner, got %v", err)
	require.Equal(t, owner.Process.Pid, inUse.PID)

	require.NoError(t, owner.Process.Kill())
	_ = owner.Wait()
	orphan := orphanPID(t, dir)
	require.True(t, alive(orphan), "the server survives its owner")

	server := start(t, Options{Dir: dir})
	require.False(t, alive(orphan))
	require.Equal(t, 1, query[int](t, server.URL(), "select 1"))
	log, err := os.ReadFile(filepath.Join(dir, "server.log"))
	require.NoError(t, err)
	require.Contains(t, string(log), "received fast shutdown request")
	require.NotContains(t, string(log), "not properly shut down")
}

func orphanPID(t *testing.T, dir string) int {
	t.Helper()
	content, err := os.ReadFile(filepath.Join(dir, "data", "postmaster.pid"))
	require.NoError(t, err)
	first, _, _ := strings.Cut(string(content), "\n")
	pid, err := strconv.Atoi(first)
	require.NoError(t, err)
	return pid
}

func TestStaleLockFileOfAReusedPIDDoesNotPreventTheStart(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	first := start(t, Options{Dir: dir})
	who, err := chooseAccount(dir)
	require.NoError(t, err)
	require.NoError(t, first.Stop(t.Context()))

	// A stranger that runs under the server's account: the case in which PostgreSQL alone would refuse.
	stranger := who.command(entrance{}, "/bin/sleep", "600")
	require.NoError(t, stranger.Start())
	t.Cleanup(func() { _ = stranger.Process.Kill(); _ = stranger.Wait() })
	pidFile := filepath.Join(dir, "data", "postmaster.pid")
	require.NoError(t, os.WriteFile(pidFile, []byte(strconv.Itoa(stranger.Process.Pid)+"\n/somewhere\n1\n5432\n\n\n"), 0o600))
	require.NoError(t, who.own(pidFile))

	second := start(t, Options{Dir: dir})
	require.Equal(t, 1, query[int](t, second.URL(), "select 1"))
	require.True(t, alive(stranger.Process.Pid), "strangers are left alone")
}

func TestInterruptAtTheTerminalDoesNotReachTheServer(t *testing.T) {
	t.Parallel()
	server := start(t, Options{Dir: t.TempDir()})
	group, err := syscall.Getpgid(server.PID())
	require.NoError(t, err)
	require.Equal(t, server.PID(), group)
	require.NotEqual(t, syscall.Getpgrp(), group)
}

func TestOpenTransactionsDoNotHoldUpTheStop(t *testing.T) {
	t.Parallel()
	server := start(t, Options{Dir: t.TempDir()})
	conn, err := pgx.Connect(t.Context(), server.URL())
	require.NoError(t, err)
	defer conn.Close(context.Background())
	_, err = conn.Exec(t.Context(), "begin; create table open_work (n int)")
	require.NoError(t, err)
	began := time.Now()
	require.NoError(t, server.Stop(t.Context()))
	require.Less(t, time.Since(began), 5*time.Second)
	require.NoError(t, server.Stop(t.Context()), "stopping twice is fine")
}

func TestUnfinishedDataDirectoryIsMadeAgain(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	require.NoError(t, os.MkdirAll(filepath.Join(dir, "data.new", "base"), 0o700))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "data.new", "PG_VERSION"), []byte("15\n"), 0o600))
	server := start(t, Options{Dir: dir})
	require.Equal(t, 1, query[int](t, server.URL(), "select 1"))
	require.NoDirExists(t, filepath.Join(dir, "data.new"))
	require.NoFileExists(t, filepath.Join(dir, "password.new"))
}

func TestPasswordIsAskedForAndHidden(t *testing.T) {
	t.Parallel()
	server := start(t, Options{Dir: t.TempDir()})
	_, err := pgx.Connect(t.Context(), strings.Replace(server.URL(), server.password, "guess", 1))
	require.ErrorContains(t, err, "28P01")
	info, err := os.Stat(filepath.Join(server.Dir(), "password"))
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o600), info.Mode().Perm())
}

func TestFailedStartSaysWhatTheServerSaid(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	_, err := Start(t.Context(), Options{Dir: dir, NoSync: true, Settings: map[string]string{"shared_buffers": "nonsense"}})
	require.ErrorContains(t, err, "shared_buffers")
	require.NotContains(t, err.Error(), "\n")
	lock, err := takeLock(dir)
	require.NoError(t, err, "a failed start gives the folder back")
	lock.Close()
}

func TestTakenPortIsReportedWhenItWasAskedFor(t *testing.T) {
	t.Parallel()
	holder := start(t, Options{Dir: t.TempDir()})
	_, err := Start(t.Context(), Options{Dir: t.TempDir(), NoSync: true, Port: holder.Port()})
	require.ErrorContains(t, err, "address already in use")
}

func fakeInstallation(t *testing.T, major string) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), major, "bin")
	require.NoError(t, os.MkdirAll(dir, 0o755))
	script := "#!/bin/sh\necho 'postgres (PostgreSQL) " + major + ".1 (Distribution)'\n"
	require.NoError(t, os.WriteFile(filepath.Join(dir, "postgres"), []byte(script), 0o755))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "initdb"), nil, 0o755))
	return dir
}

func TestProgramsAreThoseOnPathWhenNewEnoughElseTheNewest(t *testing.T) {
	t.Parallel()
	v13, v16, v17, v18 := fakeInstallation(t, "13"), fakeInstallation(t, "16"), fakeInstallation(t, "17"), fakeInstallation(t, "18")
	client := t.TempDir() // psql alone
	for name, test := range map[string]struct {
		want     int
		path     []string
		folders  []string
		found    string
		rejected int
	}{
		"on path":                         {path: []string{client, v16}, folders: []string{v18}, found: v16},
		"path too old":                    {path: []string{v13}, folders: []string{v17, v18, v16}, found: v18},
		"nothing on path":                 {path: []string{client}, folders: []string{v16, v17}, found: v17},
		"data demand another":             {want: 16, path: []string{v18}, folders: []string{v17, v16}, found: v16},
		"data demand what is not there":   {want: 15, path: []string{v18}, folders: []string{v17}, rejected: 2},
		"only an old one":                 {folders: []string{v13}, rejected: 1},
		"nothing":                         {path: []string{client}},
		"path that does not exist at all": {path: []string{"/nowhere"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			found, err := findPrograms(t.Context(), test.want, strings.Join(test.path, string(filepath.ListSeparator)), test.folders)
			if test.found != "" {
				require.NoError(t, err)
				real, err := filepath.EvalSymlinks(test.found)
				require.NoError(t, err)
				require.Equal(t, real, found.dir)
				return
			}
			missing, ok := errors.AsType[*NotInstalledError](err)
			require.True(t, ok)
			require.Len(t, missing.Found, test.rejected)
			require.Contains(t, err.Error(), "install it with")
			require.False(t, bytes.ContainsRune([]byte(err.Error()), '\n'))
		})
	}
}
