package pgtest

import (
	"context"
	"errors"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/zap/zaptest"

	"waggle/pg/local"
)

// Server is a dedicated server that its test may stop, kill and start again. The port stays the same, so that a client finds
// it again.
type Server struct {
	t       testing.TB
	options local.Options
	running *local.Server
}

// NewServer starts a dedicated server, which takes two seconds, and stops it when the test has ended. The settings are those
// of postgresql.conf and may be nil.
func NewServer(t testing.TB, settings map[string]string) *Server {
	t.Helper()
	s := &Server{t: t, options: local.Options{
		Dir: t.TempDir(), Database: "waggle", Settings: settings, NoSync: true,
		Logger: zaptest.NewLogger(t),
	}}
	s.Start()
	s.options.Port = s.running.Port()
	t.Cleanup(s.Stop)
	return s
}

// SuperURL leads to the server's database waggle as superuser.
func (s *Server) SuperURL() string { return s.running.URL() }

// PID of the server's main process.
func (s *Server) PID() int { return s.running.PID() }

// Start starts the server again after Stop or Kill, and returns when it accepts connections.
func (s *Server) Start() {
	s.t.Helper()
	running, err := local.Start(context.Background(), s.options)
	// A program that another test is just starting has our lock on the folder, too, until it has become that program.
	for range 100 {
		if _, busy := errors.AsType[*local.InUseError](err); !busy {
			break
		}
		time.Sleep(20 * time.Millisecond)
		running, err = local.Start(context.Background(), s.options)
	}
	require.NoError(s.t, err, "start dedicated server")
	s.running = running
}

// Stop shuts the server down in an orderly way; sessions are ended.
func (s *Server) Stop() {
	s.t.Helper()
	require.NoError(s.t, s.running.Stop(context.Background()), "stop dedicated server")
}

// StopImmediately shuts the server down without a checkpoint: sessions are ended at once, and the next start recovers.
func (s *Server) StopImmediately() {
	s.t.Helper()
	require.NoError(s.t, syscall.Kill(s.PID(), syscall.SIGQUIT), "stop dedicated server immediately")
	<-s.running.Done()
	s.Stop()
}

// Kill ends the server as a crash would.
func (s *Server) Kill() {
	s.t.Helper()
	require.NoError(s.t, s.running.Kill(), "kill dedicated server")
}
