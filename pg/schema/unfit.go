package schema

import (
	"context"
	_ "embed"
	"fmt"

	"github.com/jackc/pgx/v5"
)

// MinServer is the oldest server that waggle runs on, as server_version_num counts: PostgreSQL 15.
const MinServer = 150000

// UnfitError says that a reachable database cannot carry waggle.
type UnfitError struct{ Reason string }

func (e *UnfitError) Error() string { return "the database is unfit: " + e.Reason }

//go:embed check_server.sql
var checkServerSQL string

// CheckServer refuses servers that are too old, and sessions that cannot write. The error is a *UnfitError then.
func CheckServer(ctx context.Context, q Querier) error {
	var version int
	var text string
	var inRecovery, readOnly bool
	if err := q.QueryRow(ctx, checkServerSQL).Scan(&version, &text, &inRecovery, &readOnly); err != nil {
		return fmt.Errorf("check server: %w", err)
	}
	switch {
	case version < MinServer:
		return &UnfitError{Reason: fmt.Sprintf("it is PostgreSQL %s and waggle needs 15 or newer; upgrade the server", text)}
	case inRecovery:
		return &UnfitError{Reason: "it is a standby in recovery; point the database url at the primary, " +
			"or list all hosts with target_session_attrs=read-write"}
	case readOnly:
		return &UnfitError{Reason: "it is read-only for this role; turn default_transaction_read_only off for the server, the database and the role"}
	}
	return nil
}

// Querier is what this package needs of a connection, a transaction or a pool.
type Querier interface {
	QueryRow(ctx context.Context, sql string, args ...any) pgx.Row
}
