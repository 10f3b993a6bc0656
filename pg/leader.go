package pg

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// leaderLockClass is the first half of every advisory key of this product: "wagg".
const leaderLockClass int32 = 0x77616767

// LeaderConfig says who campaigns, where.
type LeaderConfig struct {
	// URL reaches the server itself, past any pooler (DB.DirectURL).
	URL       string
	Name      string
	StartID   uuid.UUID
	ClusterID uuid.UUID
	Lease     time.Duration
	Knows     Knows
}

// LeaderSession holds, or tries to get, the leader lock. After an error only Close may be called.
type LeaderSession struct {
	*Session
	config   LeaderConfig
	instance int32
	won      bool
	epoch    int64
	pid      int32
}

// LeadershipError is the server's answer that this session does not lead, as opposed to no answer.
type LeadershipError struct{ Fact string }

// Error says what the server found.
func (e *LeadershipError) Error() string { return "not the leader: " + e.Fact }

// LeadershipLost marks the error as an answer.
func (*LeadershipError) LeadershipLost() bool { return true }

// LeaderLockKey is the two-int advisory key of an installation: the product, and a hash of schema and cluster id.
func LeaderLockKey(clusterID uuid.UUID) (class, instance int32) {
	sum := sha256.Sum256(append([]byte("waggle\x00leader\x00"), clusterID[:]...))
	return leaderLockClass, int32(binary.BigEndian.Uint32(sum[:4]))
}

// DialLeader opens the lock session. A *schema.PoolerError means that this URL can never hold the lock.
func DialLeader(ctx context.Context, config LeaderConfig) (*LeaderSession, error) {
	session, err := OpenSession(ctx, SessionConfig{
		URL: config.URL, ApplicationName: "waggle leader " + config.Name, Lease: config.Lease,
	})
	if err != nil {
		return nil, fmt.Errorf("open leader session: %w", err)
	}
	_, instance := LeaderLockKey(config.ClusterID)
	return &LeaderSession{Session: session, config: config, instance: instance}, nil
}

// TryLock asks once for the lock. led says that a live leader holds it.
func (s *LeaderSession) TryLock(ctx context.Context) (won, led bool, err error) {
	if s.won {
		return false, false, errors.New("leader lock is held already, and would stack")
	}
	err = s.conn.QueryRow(ctx, statement("leader_try_lock"), leaderLockClass, s.instance, milliseconds(s.config.Lease)).
		Scan(&won, &led)
	if err != nil {
		return false, false, err
	}
	s.won = won
	return won, led, nil
}

// Bump raises the epoch in one transaction under the lock. While a job of the last leader is in the way it tries again,
// until the context ends; the lock stays held between the tries.
func (s *LeaderSession) Bump(ctx context.Context) (epoch int64, timeline string, since time.Time, err error) {
	for {
		err = pgx.BeginFunc(ctx, s.conn, func(tx pgx.Tx) error {
			epoch, timeline, since, err = s.bump(ctx, tx)
			return err
		})
		switch {
		case err == nil:
			s.epoch = epoch
			return epoch, timeline, since, nil
		case floorRaised(err):
			return 0, "", time.Time{}, ErrFloor
		case !lockTimedOut(err) || ctx.Err() != nil:
			return 0, "", time.Time{}, err
		}
	}
}

func (s *LeaderSession) bump(ctx context.Context, tx pgx.Tx) (epoch int64, timeline string, since time.Time, err error) {
	if _, err = tx.Exec(ctx, statement("leader_durable")); err != nil {
		return 0, "", since, fmt.Errorf("make epoch durable: %w", err)
	}
	if _, err = tx.Exec(ctx, statement("fence"), s.config.Knows.System, s.config.Knows.Record); err != nil {
		return 0, "", since, fmt.Errorf("read gate: %w", err)
	}
	err = tx.QueryRow(ctx, statement("leader_bump"), unsigned(leaderLockClass), unsigned(s.instance),
		s.config.StartID, s.config.Name).Scan(&epoch, &since, &timeline, &s.pid)
	if errors.Is(err, pgx.ErrNoRows) {
		return 0, "", since, &LeadershipError{"the advisory lock is not held by this session"}
	}
	if err != nil {
		return 0, "", since, err
	}
	if _, err = tx.Exec(ctx, statement("leader_stamp"), epoch); err != nil {
		return 0, "", since, fmt.Errorf("stamp epoch: %w", err)
	}
	return epoch, timeline, since, nil
}

// Heartbeat proves and stamps the leadership of the last Bump.
func (s *LeaderSession) Heartbeat(ctx context.Context) error {
	var pid int32
	var epoch int64
	var standby, locked, ours, stamped bool
	err := s.conn.QueryRow(ctx, statement("leader_heartbeat"), unsigned(leaderLockClass), unsigned(s.instance),
		s.epoch, s.config.StartID).Scan(&pid, &standby, &locked, &epoch, &ours, &stamped)
	switch {
	case errors.Is(err, pgx.ErrNoRows):
		return &LeadershipError{"the leader row is gone"}
	case err != nil:
		return err
	case pid != s.pid:
		return &LeadershipError{fmt.Sprintf("backend %d answers, not %d", pid, s.pid)}
	case standby:
		return &LeadershipError{"the server is in recovery"}
	case !locked:
		return &LeadershipError{"the advisory lock is gone"}
	case epoch != s.epoch || !ours:
		return &LeadershipError{fmt.Sprintf("epoch %d began after our %d, or is not ours", epoch, s.epoch)}
	case !stamped:
		return &LeadershipError{"the stamp belongs to another epoch"}
	}
	return nil
}

// Holder describes who holds the lock.
func (s *LeaderSession) Holder(ctx context.Context) (string, error) {
	rows, err := s.conn.Query(ctx, statement("leader_holder"), unsigned(leaderLockClass), unsigned(s.instance))
	if err != nil {
		return "", err
	}
	var pid int32
	var role, application string
	var holders []string
	_, err = pgx.ForEachRow(rows, []any{&pid, &role, &application}, func() error {
		holders = append(holders, fmt.Sprintf("pid %d, role %s, application %q", pid, role, application))
		return nil
	})
	if err != nil {
		return "", err
	}
	return fmt.Sprintf("advisory key (%d, %d): %s", leaderLockClass, s.instance, strings.Join(holders, "; ")), nil
}

// Unlock vacates the leader row, so that nobody is taken for the leader and late jobs are fenced, and frees the lock. A
// job that still holds the row makes it skip the first half.
func (s *LeaderSession) Unlock(ctx context.Context) error {
	if s.epoch != 0 {
		_, err := s.conn.Exec(ctx, statement("leader_vacate"), s.epoch, s.config.StartID)
		if err != nil && !lockTimedOut(err) {
			return fmt.Errorf("vacate leader row: %w", err)
		}
	}
	var held bool
	if err := s.conn.QueryRow(ctx, statement("leader_unlock"), leaderLockClass, s.instance).Scan(&held); err != nil {
		return fmt.Errorf("unlock: %w", err)
	}
	s.won = false
	if !held {
		return &LeadershipError{"the advisory lock was gone"}
	}
	return nil
}

// Leader is who leads, as the database knows it.
type Leader struct {
	Epoch   int64
	StartID uuid.UUID
	Name    string
	Since   time.Time
	SeenAt  time.Time
}

// ReadLeader returns who leads, or nil when nobody has said so within the lease.
func (d *DB) ReadLeader(ctx context.Context, lease time.Duration) (*Leader, error) {
	l := &Leader{}
	err := d.pool.QueryRow(ctx, statement("leader_read"), milliseconds(lease)).
		Scan(&l.Epoch, &l.StartID, &l.Name, &l.Since, &l.SeenAt)
	if errors.Is(err, pgx.ErrNoRows) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read leader: %w", err)
	}
	return l, nil
}

// unsigned is how pg_locks shows a key.
func unsigned(key int32) int64 { return int64(uint32(key)) }

func milliseconds(d time.Duration) float64 { return float64(d.Milliseconds()) }

func lockTimedOut(err error) bool {
	var refused *pgconn.PgError
	return errors.As(err, &refused) && refused.Code == "55P03"
}
