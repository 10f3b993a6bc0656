package local

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"go.uber.org/zap"
)

// launch starts the program and waits until it answers. Two failures pass by themselves and are tried again: the port was
// taken between our choice and the server's bind; processes of a killed server still hold its shared memory.
func (s *Server) launch(ctx context.Context, in entrance, server programs) error {
	for attempt := 1; ; attempt++ {
		port, err := s.choosePort()
		if err != nil {
			return err
		}
		mark, err := s.spawn(in, server, port)
		if err != nil {
			return err
		}
		err = s.awaitReady(ctx)
		if err == nil {
			s.logger.Info("postgres is ready", zap.Int("pid", s.PID()), zap.Int("port", s.port), zap.Int("major", server.major),
				zap.String("dir", s.dir))
			return nil
		}
		s.abandon()
		tail := s.logTail(mark)
		if ctx.Err() != nil || attempt == 50 || !passes(tail) {
			return fmt.Errorf("start PostgreSQL in %s: %w; its log says: %s", s.dir, err, lastLines(tail))
		}
		select {
		case <-ctx.Done():
		case <-time.After(100 * time.Millisecond):
		}
	}
}

func passes(log string) bool {
	return strings.Contains(log, "Address already in use") || strings.Contains(log, "shared memory block")
}

// choosePort finds a free port, or that the one that was asked for is free.
func (s *Server) choosePort() (int, error) {
	listener, err := net.Listen("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(s.options.Port)))
	if err != nil {
		return 0, fmt.Errorf("choose port for PostgreSQL: %w", err)
	}
	defer listener.Close()
	return listener.Addr().(*net.TCPAddr).Port, nil
}

const maxLog = 16 << 20

// spawn starts the program, and a goroutine that ends with it. It returns where in the log this attempt begins.
func (s *Server) spawn(in entrance, server programs, port int) (mark int64, err error) {
	path := filepath.Join(s.dir, "server.log")
	if info, err := os.Stat(path); err == nil && info.Size() > maxLog {
		if err := os.Rename(path, path+".1"); err != nil {
			return 0, fmt.Errorf("rotate server log: %w", err)
		}
	}
	log, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_APPEND|syscall.O_NOFOLLOW, 0o600)
	if err != nil {
		return 0, fmt.Errorf("open server log: %w", err)
	}
	defer log.Close()
	info, err := log.Stat()
	if err != nil {
		return 0, fmt.Errorf("look at server log: %w", err)
	}
	process := s.account.command(in, server.postgres(), s.arguments(in, port)...)
	process.Stdout, process.Stderr = log, log
	if err := process.Start(); err != nil {
		return 0, fmt.Errorf("start PostgreSQL: %w", err)
	}
	s.process, s.port, s.done, s.err = process, port, make(chan struct{}), nil
	go s.reap(process, s.done)
	return info.Size(), nil
}

// reap waits for the process, and ends with it.
func (s *Server) reap(process *exec.Cmd, done chan struct{}) {
	err := process.Wait()
	if err != nil {
		s.err = fmt.Errorf("the PostgreSQL server ended: %w", err)
	}
	close(done)
}

// pgCannotConnectNow is the answer of a server that is still starting or recovering.
const pgCannotConnectNow = "57P03"

// awaitReady also makes the database of the options.
func (s *Server) awaitReady(ctx context.Context) error {
	pause := 5 * time.Millisecond
	for {
		err := s.ensureDatabase(ctx)
		if err == nil {
			return nil
		}
		if answer, ok := errors.AsType[*pgconn.PgError](err); ok && answer.Code != pgCannotConnectNow {
			// Perhaps a stranger on our port answers, and ours is about to give up for that reason.
			select {
			case <-s.done:
				return s.endedEarly()
			case <-time.After(time.Second):
				return err
			}
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("it did not become ready: %w", err)
		case <-s.done:
			return s.endedEarly()
		case <-time.After(pause):
		}
		pause = min(2*pause, 100*time.Millisecond)
	}
}

func (s *Server) endedEarly() error {
	if s.err != nil {
		return s.err
	}
	return errors.New("the PostgreSQL server ended")
}

func (s *Server) ensureDatabase(ctx context.Context) error {
	conn, err := pgx.Connect(ctx, s.URLOf("postgres"))
	if err != nil {
		return err
	}
	defer conn.Close(context.WithoutCancel(ctx))
	var exists bool
	err = conn.QueryRow(ctx, "select exists (select from pg_database where datname = $1)", s.options.Database).Scan(&exists)
	if err != nil || exists {
		return err
	}
	if _, err := conn.Exec(ctx, "create database "+pgx.Identifier{s.options.Database}.Sanitize()); err != nil {
		return fmt.Errorf("create database: %w", err)
	}
	return nil
}

// abandon leaves nothing running after a failed attempt.
func (s *Server) abandon() {
	if err := s.end(context.Background()); err != nil {
		s.logger.Error("a postgres server that did not start does not end either", zap.String("code", "WG0701"), zap.Error(err))
	}
}

func (s *Server) logTail(mark int64) string {
	file, err := os.Open(filepath.Join(s.dir, "server.log"))
	if err != nil {
		return ""
	}
	defer file.Close()
	var tail bytes.Buffer
	if _, err := file.Seek(mark, 0); err == nil {
		_, _ = tail.ReadFrom(file)
	}
	return tail.String()
}

// lastLines makes one line of the last four.
func lastLines(log string) string {
	lines := strings.Split(strings.TrimSpace(log), "\n")
	return strings.Join(lines[max(0, len(lines)-4):], " | ")
}
