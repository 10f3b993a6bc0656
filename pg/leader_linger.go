package pg

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
)

// LeaderBackend is the session that the leader row names. A pid is used again; together with its start it is not.
type LeaderBackend struct {
	Epoch   int64
	StartID uuid.UUID
	Name    string
	PID     int32
	Start   time.Time
	// Unseen is how long its leader has not stamped itself, by the server's clock.
	Unseen time.Duration
}

// LeaderBackend returns whose session the leader row names, or nil when nobody leads.
func (d *DB) LeaderBackend(ctx context.Context) (*LeaderBackend, error) {
	b := &LeaderBackend{}
	var unseen float64
	err := d.pool.QueryRow(ctx, statement("leader_backend")).Scan(&b.Epoch, &b.StartID, &b.Name, &b.PID, &b.Start, &unseen)
	if errors.Is(err, pgx.ErrNoRows) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read leader backend: %w", err)
	}
	b.Unseen = time.Duration(unseen * float64(time.Second))
	return b, nil
}

// EndLeaderSession ends the session of a leader that has not stamped itself for longer than unseen; the server checks
// that once more. It answers false when there was nothing to end, or the session is another role's.
func (d *DB) EndLeaderSession(ctx context.Context, b *LeaderBackend, unseen time.Duration) (ended bool, err error) {
	err = d.pool.QueryRow(ctx, statement("leader_end_session"), b.PID, b.Start, b.Epoch, b.StartID, milliseconds(unseen)).Scan(&ended)
	if errors.Is(err, pgx.ErrNoRows) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("end leader session: %w", err)
	}
	return ended, nil
}
