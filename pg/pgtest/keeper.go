package pgtest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"waggle/pg/local"
)

// settings of the shared server. Durability stays on: tests of commits mean it. Many binaries with a pool for each test
// need connections.
var settings = map[string]string{
	"max_connections": "500",
	"log_line_prefix": "%m [%p] %d %a ",
	"log_lock_waits":  "on",
	// Tests drop databases all the time, and each drop writes a checkpoint that would be logged.
	"log_checkpoints": "off",
}

const (
	keeperVariable = "WAGGLE_PGTEST_KEEPER"
	idleLimit      = 30 * time.Second
)

// A test binary that is started as the keeper does nothing else.
func init() {
	if dir := os.Getenv(keeperVariable); dir != "" {
		if err := keep(folder(dir)); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
}

// folder holds what the sharing of one server needs.
type folder string

func (f folder) users() string  { return filepath.Join(string(f), "users") }  // shared lock: a test binary lives
func (f folder) start() string  { return filepath.Join(string(f), "start") }  // exclusive lock: one looks and starts at a time
func (f folder) keeper() string { return filepath.Join(string(f), "keeper") } // exclusive lock: the keeper lives
func (f folder) state() string  { return filepath.Join(string(f), "server.json") }

type serverState struct {
	URL string `json:"url"`
	PID int    `json:"pid"`
}

var (
	sharedOnce sync.Once
	shared     string
	sharedErr  error
	// membership must stay reachable: a file that is collected is closed, and its lock is gone.
	membership *os.File
)

// sharedURL leads to the shared server as superuser.
func sharedURL(t testing.TB) string {
	t.Helper()
	sharedOnce.Do(func() { shared, sharedErr = join() })
	runtime.KeepAlive(membership)
	if sharedErr != nil {
		t.Fatalf("shared PostgreSQL server: %v", sharedErr)
	}
	return shared
}

// join counts this process among the users, and starts the server when there is none. The lock on users is not given back:
// it ends with the process.
func join() (string, error) {
	dir, err := sharedFolder()
	if err != nil {
		return "", err
	}
	if membership, err = acquire(dir.users(), syscall.LOCK_SH); err != nil {
		return "", err
	}
	starting, err := acquire(dir.start(), syscall.LOCK_EX)
	if err != nil {
		return "", err
	}
	defer starting.Close()
	free, err := acquire(dir.keeper(), syscall.LOCK_EX|syscall.LOCK_NB)
	if errors.Is(err, syscall.EWOULDBLOCK) {
		return awaitServer(dir, 0)
	}
	if err != nil {
		return "", err
	}
	free.Close()
	return startKeeper(dir)
}

// sharedFolder must be ours alone: its name can be guessed, and others may write beside it.
func sharedFolder() (folder, error) {
	dir := filepath.Join(os.TempDir(), fmt.Sprintf("waggle-pgtest-%d", os.Getuid()))
	if err := os.Mkdir(dir, 0o711); err != nil && !errors.Is(err, os.ErrExist) {
		return "", fmt.Errorf("make folder: %w", err)
	}
	info, err := os.Lstat(dir)
	if err != nil {
		return "", fmt.Errorf("look at folder: %w", err)
	}
	owner, ok := info.Sys().(*syscall.Stat_t)
	if !ok || !info.IsDir() || int(owner.Uid) != os.Getuid() || info.Mode().Perm()&0o022 != 0 {
		return "", fmt.Errorf("%s is not a folder that only we may write to; remove it", dir)
	}
	return folder(dir), nil
}

func acquire(path string, how int) (*os.File, error) {
	file, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, fmt.Errorf("open lock: %w", err)
	}
	for {
		err = syscall.Flock(int(file.Fd()), how)
		if !errors.Is(err, syscall.EINTR) {
			break
		}
	}
	if err != nil {
		file.Close()
		return nil, fmt.Errorf("lock %s: %w", path, err)
	}
	return file, nil
}

// startKeeper starts this binary once more, in a session of its own and with no open file of ours, since `go test` waits for
// whoever holds its output.
func startKeeper(dir folder) (string, error) {
	if err := os.Remove(dir.state()); err != nil && !errors.Is(err, os.ErrNotExist) {
		return "", fmt.Errorf("remove old state: %w", err)
	}
	self, err := os.Executable()
	if err != nil {
		return "", fmt.Errorf("find own program: %w", err)
	}
	log, err := os.OpenFile(filepath.Join(string(dir), "keeper.log"), os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return "", fmt.Errorf("open keeper log: %w", err)
	}
	defer log.Close()
	cmd := exec.Command(self)
	cmd.Dir = "/"
	cmd.Env = append(os.Environ(), keeperVariable+"="+string(dir))
	cmd.Stdout, cmd.Stderr = log, log
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := cmd.Start(); err != nil {
		return "", fmt.Errorf("start keeper: %w", err)
	}
	return awaitServer(dir, cmd.Process.Pid)
}

// awaitServer returns when the server answers. A keeper that we started (or zero) and that ends instead has said why in its
// log. It is looked at, not waited for: a waiting goroutine would be a leak in every test binary.
func awaitServer(dir folder, started int) (string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), 90*time.Second)
	defer cancel()
	for {
		url, err := readState(ctx, dir)
		if err == nil {
			return url, nil
		}
		var status syscall.WaitStatus
		if ended, _ := syscall.Wait4(max(started, 1), &status, syscall.WNOHANG, nil); started != 0 && ended == started {
			said, _ := os.ReadFile(filepath.Join(string(dir), "keeper.log"))
			return "", fmt.Errorf("its keeper ended with code %d: %s", status.ExitStatus(), said)
		}
		select {
		case <-ctx.Done():
			return "", fmt.Errorf("it did not become ready: %w", err)
		case <-time.After(20 * time.Millisecond):
		}
	}
}

func readState(ctx context.Context, dir folder) (string, error) {
	text, err := os.ReadFile(dir.state())
	if err != nil {
		return "", fmt.Errorf("read state: %w", err)
	}
	var state serverState
	if err := json.Unmarshal(text, &state); err != nil {
		return "", fmt.Errorf("parse state: %w", err)
	}
	conn, err := pgx.Connect(ctx, state.URL)
	if err != nil {
		return "", fmt.Errorf("connect: %w", err)
	}
	return state.URL, conn.Close(ctx)
}

// keep is the keeper's life.
func keep(dir folder) error {
	lock, err := acquire(dir.keeper(), syscall.LOCK_EX)
	if err != nil {
		return err
	}
	defer lock.Close()
	data := filepath.Join(string(dir), "postgres")
	// Data of an earlier keeper are of no use; a server that it left behind is.
	server, err := startFresh(data)
	if err != nil {
		return err
	}
	if err := writeState(dir, serverState{URL: server.URLOf("postgres"), PID: server.PID()}); err != nil {
		return errors.Join(err, server.Stop(context.Background()))
	}
	alone := awaitIdle(dir, server)
	if alone != nil {
		defer alone.Close()
	}
	os.Remove(dir.state())
	if err := server.Stop(context.Background()); err != nil {
		return err
	}
	return os.RemoveAll(data)
}

func startFresh(data string) (*local.Server, error) {
	options := local.Options{Dir: data, Database: "postgres", Settings: settings, NoSync: true}
	if _, err := os.Stat(data); err == nil {
		leftover, err := local.Start(context.Background(), options)
		if err == nil {
			err = leftover.Stop(context.Background())
		}
		if inUse, ok := errors.AsType[*local.InUseError](err); ok {
			return nil, inUse
		}
		if err := os.RemoveAll(data); err != nil {
			return nil, fmt.Errorf("remove old data: %w", err)
		}
	}
	server, err := local.Start(context.Background(), options)
	if err != nil {
		return nil, fmt.Errorf("start shared server: %w", err)
	}
	return server, nil
}

func writeState(dir folder, state serverState) error {
	text, err := json.Marshal(state)
	if err != nil {
		return fmt.Errorf("encode state: %w", err)
	}
	draft := dir.state() + ".new"
	if err := os.WriteFile(draft, text, 0o600); err != nil {
		return fmt.Errorf("write state: %w", err)
	}
	return os.Rename(draft, dir.state())
}

// awaitIdle returns with the lock on users when nobody has had it for the idle limit, or without it when the server ended
// or the folder was removed.
func awaitIdle(dir folder, server *local.Server) *os.File {
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	idleSince := time.Now()
	for {
		select {
		case <-server.Done():
			return nil
		case <-tick.C:
		}
		if _, err := os.Stat(dir.keeper()); err != nil {
			return nil
		}
		lock, err := acquire(dir.users(), syscall.LOCK_EX|syscall.LOCK_NB)
		if err != nil {
			idleSince = time.Now()
			continue
		}
		if time.Since(idleSince) >= idleLimit {
			return lock
		}
		lock.Close()
	}
}
