package local

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"time"

	"go.uber.org/zap"
)

// InUseError says that a living process owns the folder.
type InUseError struct {
	Dir string
	PID int
}

func (e *InUseError) Error() string {
	return fmt.Sprintf("the PostgreSQL server in %s is in use by process %d; stop that one or choose another folder", e.Dir, e.PID)
}

// takeLock makes us the owner of the folder until the file is closed. The kernel lets go of it when we die.
func takeLock(dir string) (*os.File, error) {
	path := filepath.Join(dir, "lock")
	file, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, fmt.Errorf("open lock file: %w", err)
	}
	err = syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
	if errors.Is(err, syscall.EWOULDBLOCK) {
		text, _ := os.ReadFile(path)
		pid, _ := strconv.Atoi(strings.TrimSpace(string(text)))
		file.Close()
		return nil, &InUseError{Dir: dir, PID: pid}
	}
	if err == nil {
		err = errors.Join(file.Truncate(0), writeAt(file, fmt.Sprintf("%d\n", os.Getpid())))
	}
	if err != nil {
		file.Close()
		return nil, fmt.Errorf("lock server folder: %w", err)
	}
	return file, nil
}

func writeAt(file *os.File, text string) error {
	_, err := file.WriteAt([]byte(text), 0)
	return err
}

// clusterName marks our server's command line, so that a server that we find can be told from a stranger that was given the
// same pid after a reboot.
func clusterName(dir string) string {
	sum := sha256.Sum256([]byte(dir))
	return "waggle-" + hex.EncodeToString(sum[:6])
}

// stopLeftover ends a server that outlived its owner. The caller holds the lock, so nobody else is using it. What a dead
// server left is PostgreSQL's own business: it recovers, and takes over a lock file whose process is gone.
func stopLeftover(ctx context.Context, dir string, logger *zap.Logger) error {
	pidFile := filepath.Join(dir, "data", "postmaster.pid")
	content, err := os.ReadFile(pidFile)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("read server pid: %w", err)
	}
	first, _, _ := strings.Cut(string(content), "\n")
	pid, err := strconv.Atoi(strings.TrimSpace(first))
	if err != nil || pid <= 1 || !alive(pid) {
		return nil
	}
	if !runsFolder(ctx, pid, dir) {
		// The pid belongs to somebody else by now. PostgreSQL would believe the file if that somebody runs under its account.
		logger.Info("removing stale postgres lock file", zap.String("file", pidFile), zap.Int("pid", pid))
		return os.Remove(pidFile)
	}
	logger.Info("stopping a postgres server that outlived its owner", zap.Int("pid", pid), zap.String("dir", dir))
	for _, step := range shutdownSteps {
		if err := syscall.Kill(pid, step.signal); err != nil && !errors.Is(err, syscall.ESRCH) {
			return fmt.Errorf("stop leftover server %d: %w", pid, err)
		}
		if waitGone(ctx, pid, step.wait) {
			return nil
		}
	}
	return fmt.Errorf("the leftover PostgreSQL server %d in %s does not end", pid, dir)
}

// shutdownSteps: fast (roll back, write a checkpoint), immediate (recover at the next start), then no more asking.
var shutdownSteps = []struct {
	signal syscall.Signal
	wait   time.Duration
}{
	{syscall.SIGINT, 10 * time.Second},
	{syscall.SIGQUIT, 3 * time.Second},
	{syscall.SIGKILL, 2 * time.Second},
}

func waitGone(ctx context.Context, pid int, limit time.Duration) bool {
	deadline := time.NewTimer(limit)
	defer deadline.Stop()
	tick := time.NewTicker(10 * time.Millisecond) // not our child: there is nothing to wait on
	defer tick.Stop()
	for alive(pid) {
		select {
		case <-ctx.Done():
			return !alive(pid)
		case <-deadline.C:
			return !alive(pid)
		case <-tick.C:
		}
	}
	return true
}

// alive does not count a zombie: in a container whose first process reaps nobody, they stay for ever.
func alive(pid int) bool {
	if err := syscall.Kill(pid, 0); errors.Is(err, syscall.ESRCH) {
		return false
	}
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return true
	}
	_, afterName, _ := bytes.Cut(stat, []byte(") "))
	return !bytes.HasPrefix(afterName, []byte("Z"))
}

// runsFolder reports whether the process is a server on this folder.
func runsFolder(ctx context.Context, pid int, dir string) bool {
	if runtime.GOOS == "linux" {
		arguments, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
		return err == nil && bytes.Contains(arguments, []byte("cluster_name="+clusterName(dir)+"\x00"))
	}
	line, err := exec.CommandContext(ctx, "ps", "-ww", "-o", "args=", "-p", strconv.Itoa(pid)).Output()
	return err == nil && bytes.Contains(line, []byte("cluster_name="+clusterName(dir)))
}
