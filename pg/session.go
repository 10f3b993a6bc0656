package pg

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"waggle/pg/schema"
)

// Session is a connection that belongs to no pool and keeps what it is told: session settings and advisory locks. It
// has proved that no transaction pooler stands in between. Any error closes it for good, because a late answer could be
// taken for the next one, and a lock may have been granted behind the back of a cancelled question. Calls come one at
// a time.
type Session struct {
	conn *pgx.Conn
}

// SessionConfig says where a session goes and who it says it is.
type SessionConfig struct {
	URL             string
	ApplicationName string
	// Lease is how long the server keeps the session without a word from us.
	Lease time.Duration
}

const (
	sessionLockTimeout = 250 * time.Millisecond
	closeTimeout       = time.Second
	// A vanished host is noticed by the kernels on both sides within idle + count * interval.
	keepAliveIdle     = 5 * time.Second
	keepAliveInterval = 2 * time.Second
	keepAliveCount    = 3
)

// OpenSession connects to a server that takes writes, proves that the session is private, and gives it its settings.
func OpenSession(ctx context.Context, config SessionConfig) (*Session, error) {
	settings, err := sessionSettings(config)
	if err != nil {
		return nil, err
	}
	conn, err := pgx.ConnectConfig(ctx, settings)
	if err != nil {
		return nil, fmt.Errorf("connect: %w", err)
	}
	s := &Session{conn: conn}
	if err := schema.ProvePrivate(ctx, s.conn); err != nil {
		s.Close()
		return nil, err
	}
	if err := s.settle(ctx, config.Lease); err != nil {
		s.Close()
		return nil, err
	}
	return s, nil
}

// sessionSettings prepares nothing on the server: until the pooler test is done it may be anybody's.
func sessionSettings(config SessionConfig) (*pgx.ConnConfig, error) {
	settings, err := pgx.ParseConfig(config.URL)
	if err != nil {
		return nil, fmt.Errorf("parse database url: %w", err)
	}
	settings.ConnectTimeout = connectTimeout
	settings.ValidateConnect = pgconn.ValidateConnectTargetSessionAttrsReadWrite
	settings.DefaultQueryExecMode = pgx.QueryExecModeExec
	settings.RuntimeParams["application_name"] = config.ApplicationName
	dialer := &net.Dialer{
		KeepAliveConfig: net.KeepAliveConfig{
			Enable: true, Idle: keepAliveIdle, Interval: keepAliveInterval, Count: keepAliveCount,
		},
		Control: func(network, _ string, raw syscall.RawConn) error {
			if network == "unix" {
				return nil
			}
			return limitUnacknowledged(raw, config.Lease)
		},
	}
	settings.DialFunc = dialer.DialContext
	return settings, nil
}

// sessionSetting is a setting in the base unit of the server, and whether leading depends on it. Those of TCP read zero
// on a local socket, and some servers cannot set them.
type sessionSetting struct {
	name   string
	value  int64
	needed bool
}

func sessionSettingsFor(lease time.Duration) []sessionSetting {
	return []sessionSetting{
		{"statement_timeout", (lease / 3).Milliseconds(), true},
		{"lock_timeout", sessionLockTimeout.Milliseconds(), true},
		{"idle_session_timeout", lease.Milliseconds(), true},
		{"idle_in_transaction_session_timeout", (lease / 3).Milliseconds(), true},
		{"tcp_keepalives_idle", int64(keepAliveIdle.Seconds()), false},
		{"tcp_keepalives_interval", int64(keepAliveInterval.Seconds()), false},
		{"tcp_keepalives_count", keepAliveCount, false},
		{"tcp_user_timeout", lease.Milliseconds(), false},
	}
}

// settle sets the settings, and reads back those that matter: a proxy may swallow what it does not know.
func (s *Session) settle(ctx context.Context, lease time.Duration) error {
	wanted := sessionSettingsFor(lease)
	names, values := []string{"synchronous_commit"}, []string{"off"}
	needed := map[string]int64{}
	for _, setting := range wanted {
		names, values = append(names, setting.name), append(values, strconv.FormatInt(setting.value, 10))
		if setting.needed {
			needed[setting.name] = setting.value
		}
	}
	if _, err := s.conn.Exec(ctx, statement("session_settings"), names, values); err != nil {
		return fmt.Errorf("set session settings: %w", err)
	}
	rows, err := s.conn.Query(ctx, statement("session_read_settings"), names)
	if err != nil {
		return fmt.Errorf("read back session settings: %w", err)
	}
	found := map[string]string{}
	var name, value string
	if _, err := pgx.ForEachRow(rows, []any{&name, &value}, func() error { found[name] = value; return nil }); err != nil {
		return fmt.Errorf("read back session settings: %w", err)
	}
	for name, value := range needed {
		if found[name] != strconv.FormatInt(value, 10) {
			return fmt.Errorf("session setting %s is %q after setting it to %d", name, found[name], value)
		}
	}
	return s.watchClient(ctx)
}

// watchClient is refused by servers on systems that cannot watch a socket, which is no reason not to lead.
func (s *Session) watchClient(ctx context.Context) error {
	_, err := s.conn.Exec(ctx, statement("session_check_interval"), clientCheck, false)
	if err != nil && !unsupported(err) {
		return fmt.Errorf("set client connection check: %w", err)
	}
	return nil
}

// clientCheck is how often a server that can looks whether the client of a running statement is still there, in ms.
const clientCheck = "250"

// unsupported says that the server knows no such setting, or not this value for it.
func unsupported(err error) bool {
	var refused *pgconn.PgError
	return errors.As(err, &refused) && (refused.Code == "22023" || refused.Code == "42704")
}

// Close ends the session, and with it all locks it holds.
func (s *Session) Close() { closeConn(s.conn) }

// closeConn says goodbye, but not for long.
func closeConn(conn *pgx.Conn) {
	ctx, cancel := context.WithTimeout(context.Background(), closeTimeout)
	defer cancel()
	_ = conn.Close(ctx)
}
