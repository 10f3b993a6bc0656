package local

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"syscall"
	"time"

	"go.uber.org/zap"
)

// Options say what server to start.
type Options struct {
	// Dir is the server's folder; it is made when it does not exist.
	Dir string
	// Database is made when it does not exist, and is what URL leads to. Default "waggle".
	Database string
	// Port on 127.0.0.1; zero lets the kernel choose.
	Port int
	// Settings of postgresql.conf, given on the command line.
	Settings map[string]string
	// NoSync skips the flush of a new data directory to disk. Only for data that nobody will miss.
	NoSync bool
	// Patience bounds the whole start, recovery after a crash included. Default one minute.
	Patience time.Duration
	Logger   *zap.Logger
}

// Server is a running server, a child of this process.
type Server struct {
	options  Options
	dir      string
	port     int
	password string
	account  account
	lock     *os.File
	logger   *zap.Logger

	process *exec.Cmd
	done    chan struct{}
	err     error // set before done is closed
}

const superuser = "postgres"

// Start starts the server and returns when it accepts connections. Errors to tell apart: *NotInstalledError, *InUseError;
// others carry the last lines of the server's log.
func Start(ctx context.Context, options Options) (*Server, error) {
	if options.Logger == nil {
		options.Logger = zap.NewNop()
	}
	if options.Database == "" {
		options.Database = "waggle"
	}
	if options.Patience == 0 {
		options.Patience = time.Minute
	}
	ctx, cancel := context.WithTimeout(ctx, options.Patience)
	defer cancel()
	dir, err := filepath.Abs(options.Dir)
	if err != nil {
		return nil, fmt.Errorf("resolve server folder: %w", err)
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("make server folder: %w", err)
	}
	if dir, err = filepath.EvalSymlinks(dir); err != nil {
		return nil, fmt.Errorf("resolve server folder: %w", err)
	}
	s := &Server{options: options, dir: dir, logger: options.Logger}
	if s.lock, err = takeLock(dir); err != nil {
		return nil, err
	}
	if err := s.start(ctx); err != nil {
		s.lock.Close()
		return nil, err
	}
	return s, nil
}

func (s *Server) start(ctx context.Context) error {
	var err error
	if s.account, err = chooseAccount(s.dir); err != nil {
		return err
	}
	if err := s.account.admit(s.dir); err != nil {
		return err
	}
	in, err := s.account.open(s.dir)
	if err != nil {
		return err
	}
	defer in.close()
	if err := stopLeftover(ctx, s.dir, s.logger); err != nil {
		return err
	}
	server, err := s.prepareData(ctx, in)
	if err != nil {
		return err
	}
	if s.password, err = readPassword(s.dir); err != nil {
		return err
	}
	return s.launch(ctx, in, server)
}

// Dir is the server's folder, absolute.
func (s *Server) Dir() string { return s.dir }

// Port is where the server listens on 127.0.0.1.
func (s *Server) Port() int { return s.port }

// PID is the server's main process.
func (s *Server) PID() int { return s.process.Process.Pid }

// URL leads to the database of the options, as the superuser.
func (s *Server) URL() string { return s.URLOf(s.options.Database) }

// URLOf leads to any database of the server, as the superuser.
func (s *Server) URLOf(database string) string {
	return (&url.URL{
		Scheme:   "postgres",
		User:     url.UserPassword(superuser, s.password),
		Host:     net.JoinHostPort("127.0.0.1", strconv.Itoa(s.port)),
		Path:     "/" + database,
		RawQuery: "sslmode=disable",
	}).String()
}

// Done is closed when the server has ended, for whatever reason.
func (s *Server) Done() <-chan struct{} { return s.done }

// Wait returns when the server has ended. The error is nil when it shut down in an orderly way.
func (s *Server) Wait() error {
	<-s.done
	return s.err
}

// Stop shuts the server down: fast at first, which rolls back what is open and loses nothing; immediately when ten seconds
// or ctx are over. It returns when the server is gone and the folder is free for the next owner. It may be called again,
// and has to be called after the server ended by itself, too.
func (s *Server) Stop(ctx context.Context) error {
	if err := s.end(ctx); err != nil {
		return err
	}
	s.lock.Close()
	return nil
}

func (s *Server) end(ctx context.Context) error {
	for _, step := range shutdownSteps {
		select {
		case <-s.done:
			return nil
		default:
		}
		if err := s.process.Process.Signal(step.signal); err != nil && !errors.Is(err, os.ErrProcessDone) {
			return fmt.Errorf("signal server: %w", err)
		}
		limit := time.NewTimer(step.wait)
		// Once ctx is over the harsher steps still get their time: a server must not be left behind.
		over := ctx.Done()
		if step.signal != syscall.SIGINT {
			over = nil
		}
		select {
		case <-s.done:
			limit.Stop()
			return nil
		case <-over:
		case <-limit.C:
		}
		limit.Stop()
		s.logger.Warn("postgres does not stop, asking harder", zap.String("code", "WG0702"), zap.Int("pid", s.PID()))
	}
	return fmt.Errorf("the PostgreSQL server %d does not end", s.PID())
}

// Kill ends the server's main process with SIGKILL, as a crash would, and waits for that process. Its children notice and
// follow within moments. Start with the same folder and port brings it back.
func (s *Server) Kill() error {
	if err := s.process.Process.Kill(); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("kill server: %w", err)
	}
	<-s.done
	s.lock.Close()
	return nil
}

// arguments of the server program. Unix sockets stay off: their paths are limited to some 100 bytes.
func (s *Server) arguments(in entrance, port int) []string {
	arguments := []string{
		"-D", filepath.Join(in.path, "data"),
		"-c", "cluster_name=" + clusterName(s.dir),
		"-c", "listen_addresses=127.0.0.1",
		"-c", "unix_socket_directories=",
		"-c", "port=" + strconv.Itoa(port),
		"-c", "logging_collector=off",
		"-c", "log_destination=stderr",
	}
	for _, name := range sortedNames(s.options.Settings) {
		arguments = append(arguments, "-c", name+"="+s.options.Settings[name])
	}
	return arguments
}

func sortedNames(settings map[string]string) []string {
	names := make([]string, 0, len(settings))
	for name := range settings {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}
