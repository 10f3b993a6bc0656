package schema

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"go.uber.org/zap"
)

var (
	//go:embed gate_lock.sql
	gateLockSQL string
	//go:embed gate_holders.sql
	gateHoldersSQL string
)

const (
	gateLockTimeout = 200 * time.Millisecond
	// gatePatience bounds the tries. A writer's transaction is short, so whoever is in the way for that long is no writer.
	gatePatience = 30 * time.Second
)

// LockedError says who kept the gate from being locked.
type LockedError struct {
	Waited  time.Duration
	Holders []string
}

func (e *LockedError) Error() string {
	who := "sessions that are not visible to this role"
	if len(e.Holders) > 0 {
		who = strings.Join(e.Holders, "; ")
	}
	return fmt.Sprintf("the gate could not be locked within %s: held by %s", e.Waited.Round(time.Second), who)
}

// underGateLock runs do in a transaction that holds the gate exclusively, so that no writing transaction is in flight
// meanwhile. It stands in the lock's queue for a fifth of a second at most, because all writers stand behind it there; between
// two tries they run for at least as long.
func (m *Migration) underGateLock(ctx context.Context, a *applier, do func(pgx.Tx) error) error {
	began := time.Now()
	if err := a.setLockTimeout(ctx, gateLockTimeout); err != nil {
		return err
	}
	for {
		var holders []string
		err := pgx.BeginFunc(ctx, m.conn, func(tx pgx.Tx) error {
			if _, err := tx.Exec(ctx, gateLockSQL); err != nil {
				return err
			}
			return do(tx)
		})
		if !metLock(err) {
			return err
		}
		if holders, err = m.gateHolders(ctx); err != nil {
			return err
		}
		if waited := time.Since(began); waited > m.options.gatePatience {
			return &LockedError{Waited: waited, Holders: holders}
		}
		m.options.Logger.Warn("the gate is locked, trying again", zap.String("code", "WG0027"), zap.Strings("holders", holders))
		select {
		case <-ctx.Done():
			return errors.Join(context.Cause(ctx), &LockedError{Waited: time.Since(began), Holders: holders})
		case <-time.After(gateLockTimeout + rand.N(gateLockTimeout)):
		}
	}
}

func (m *Migration) gateHolders(ctx context.Context) (holders []string, err error) {
	rows, err := m.conn.Query(ctx, gateHoldersSQL)
	if err != nil {
		return nil, fmt.Errorf("read who holds the gate: %w", err)
	}
	var pid int
	var user, application, query string
	var age float64
	_, err = pgx.ForEachRow(rows, []any{&pid, &user, &application, &age, &query}, func() error {
		holder := fmt.Sprintf("pid %d, role %s, application %q, transaction open for %.1f s", pid, user, application, age)
		if query != "" {
			holder += fmt.Sprintf(", last statement %q", query)
		}
		holders = append(holders, holder)
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("read who holds the gate: %w", err)
	}
	return holders, nil
}
