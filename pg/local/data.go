package local

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"

	"go.uber.org/zap"
)

// prepareData makes the data directory when there is none, and returns the programs that fit it.
func (s *Server) prepareData(ctx context.Context, in entrance) (programs, error) {
	want, err := dataMajor(s.dir)
	if err != nil {
		return programs{}, err
	}
	server, err := findPrograms(ctx, want, os.Getenv("PATH"), folders)
	if err != nil || want > 0 {
		return server, err
	}
	if err := s.initialise(ctx, in, server); err != nil {
		return programs{}, err
	}
	s.logger.Info("made a new postgres data directory", zap.String("dir", s.dir), zap.Int("major", server.major))
	return server, nil
}

// dataMajor is the version that wrote the data, or zero when there are none.
func dataMajor(dir string) (int, error) {
	text, err := os.ReadFile(filepath.Join(dir, "data", "PG_VERSION"))
	if errors.Is(err, os.ErrNotExist) {
		return 0, nil
	}
	if err != nil {
		return 0, fmt.Errorf("read version of the data: %w", err)
	}
	major, err := strconv.Atoi(strings.TrimSpace(string(text)))
	if err != nil {
		return 0, fmt.Errorf("read version of the data in %s: %w", dir, err)
	}
	return major, nil
}

// initialise runs initdb beside its final place, so that one that was killed half-way is never taken for data. The locale
// is C, which every system has and which sorts as waggle's columns do.
func (s *Server) initialise(ctx context.Context, in entrance, server programs) error {
	fresh := filepath.Join(s.dir, "data.new")
	if err := os.RemoveAll(fresh); err != nil {
		return fmt.Errorf("remove unfinished data directory: %w", err)
	}
	if err := os.Mkdir(fresh, 0o700); err != nil {
		return fmt.Errorf("make data directory: %w", err)
	}
	if err := s.account.own(fresh); err != nil {
		return err
	}
	password := rand.Text()
	// initdb reads the password under its own account, from a file that is gone once it has.
	handOver := filepath.Join(s.dir, "password.new")
	defer os.Remove(handOver)
	if err := errors.Join(os.WriteFile(handOver, []byte(password+"\n"), 0o600), s.account.own(handOver)); err != nil {
		return fmt.Errorf("write password: %w", err)
	}
	arguments := []string{
		"--pgdata", filepath.Join(in.path, "data.new"),
		"--username", superuser, "--pwfile", filepath.Join(in.path, "password.new"), "--auth", "scram-sha-256",
		"--encoding", "UTF8", "--locale", "C", "--no-instructions",
	}
	if s.options.NoSync {
		arguments = append(arguments, "--no-sync")
	}
	if err := s.runInitdb(ctx, in, server, arguments); err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(s.dir, "password"), []byte(password+"\n"), 0o600); err != nil {
		return fmt.Errorf("write password: %w", err)
	}
	if err := os.Rename(fresh, filepath.Join(s.dir, "data")); err != nil {
		return fmt.Errorf("put data directory in place: %w", err)
	}
	return nil
}

func (s *Server) runInitdb(ctx context.Context, in entrance, server programs, arguments []string) error {
	cmd := s.account.command(in, server.initdb(), arguments...)
	var output strings.Builder
	cmd.Stdout, cmd.Stderr = &output, &output
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("start initdb: %w", err)
	}
	finished := make(chan error, 1)
	go func() { finished <- cmd.Wait() }()
	select {
	case err := <-finished:
		if err != nil {
			return fmt.Errorf("initdb: %w: %s", err, lastLines(output.String()))
		}
		return nil
	case <-ctx.Done():
		_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGINT) // to the group: it removes what it made
		<-finished
		return fmt.Errorf("initdb: %w", context.Cause(ctx))
	}
}

func readPassword(dir string) (string, error) {
	text, err := os.ReadFile(filepath.Join(dir, "password"))
	if err != nil {
		return "", fmt.Errorf("read password of the server: %w", err)
	}
	return strings.TrimSpace(string(text)), nil
}
