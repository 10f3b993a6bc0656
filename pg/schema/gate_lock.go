package schema

import (
	"context"
	_ "embed"
	"errors"
	"math/rand/v2"
	"time"

	"github.com/jackc/pgx/v5"
	"go.uber.org/zap"
)

//go:embed gate_lock.sql
var gateLockSQL string

const (
	gateLockTimeout = 200 * time.Millisecond
	// gatePatience bounds the tries. A writer's transaction is short, so whoever is in the way for that long is no writer.
	gatePatience = 30 * time.Second
)

// underGateLock runs do in a transaction that holds the gate exclusively, so that no writing transaction is in flight
// meanwhile. It stands in the lock's queue for a fifth of a second at most, because all writers stand behind it there; between
// two tries they run for at least as long.
func (m *Migration) underGateLock(ctx context.Context, a *applier, do func(pgx.Tx) error) error {
	began := time.Now()
	if err := a.setLockTimeout(ctx, gateLockTimeout); err != nil {
		return err
	}
	for {
		var inTheWay []string
		err := pgx.BeginFunc(ctx, m.conn, func(tx pgx.Tx) error {
			if _, err := tx.Exec(ctx, gateLockSQL); err != nil {
				return err
			}
			return do(tx)
		})
		if !metLock(err) {
			return err
		}
		if inTheWay, err = holders(ctx, m.conn, []string{"gate"}, 0); err != nil {
			return err
		}
		if waited := time.Since(began); waited > m.options.gatePatience {
			return &LockedError{What: "the gate", Waited: waited, Holders: inTheWay}
		}
		m.options.Logger.Warn("the gate is locked, trying again", zap.String("code", "WG0027"), zap.Strings("holders", inTheWay))
		select {
		case <-ctx.Done():
			return errors.Join(context.Cause(ctx), &LockedError{What: "the gate", Waited: time.Since(began), Holders: inTheWay})
		case <-time.After(gateLockTimeout + rand.N(gateLockTimeout)):
		}
	}
}
