package schema

import (
	"context"
	_ "embed"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"
)

// PoolerError says that statements of one connection are served by changing backends. A lock taken there would stay on
// a backend that others use.
type PoolerError struct{}

// Error says what to do about it.
func (*PoolerError) Error() string {
	return "the direct url passes a transaction pooler, which cannot keep a session lock; point --direct-url at the server itself"
}

// UnfitToLead marks the error as one that trying again does not mend.
func (*PoolerError) UnfitToLead() bool { return true }

//go:embed session_pid.sql
var sessionPIDSQL string

// ProvePrivate is the pooler test, to be done before any setting or lock: our backend pid, that of a second connection that
// sits in a transaction meanwhile, and ours again. We ask twice each time, for a pooler that takes its backends in turn.
// The error is a *PoolerError when there is one.
func ProvePrivate(ctx context.Context, conn *pgx.Conn) error {
	ours := make([]int32, 0, 4)
	ask := func() error {
		for range 2 {
			pid, err := backendPID(ctx, conn)
			if err != nil {
				return err
			}
			ours = append(ours, pid)
		}
		return nil
	}
	if err := ask(); err != nil {
		return err
	}
	other, err := pgx.ConnectConfig(ctx, conn.Config())
	if err != nil {
		return fmt.Errorf("open second connection for the pooler test: %w", err)
	}
	defer closeSoon(other)
	tx, err := other.Begin(ctx)
	if err != nil {
		return fmt.Errorf("begin on second connection for the pooler test: %w", err)
	}
	theirs, err := backendPID(ctx, tx)
	if err != nil {
		return err
	}
	if err := ask(); err != nil {
		return err
	}
	if poolerBetween(ours, theirs) {
		return &PoolerError{}
	}
	return nil
}

// poolerBetween decides the pooler test: ours moved, or the pids meet.
func poolerBetween(ours []int32, theirs int32) bool {
	return slices.ContainsFunc(ours, func(pid int32) bool { return pid != ours[0] || pid == theirs })
}

func backendPID(ctx context.Context, q Querier) (pid int32, err error) {
	if err := q.QueryRow(ctx, sessionPIDSQL).Scan(&pid); err != nil {
		return 0, fmt.Errorf("read backend pid: %w", err)
	}
	return pid, nil
}

func closeSoon(conn *pgx.Conn) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	_ = conn.Close(ctx)
}
