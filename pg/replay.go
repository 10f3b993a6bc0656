package pg

import (
	"context"
	"errors"
	"fmt"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
)

// FindDeadLetter returns the dead letter of the tenant, nil when there is none.
func (d *DB) FindDeadLetter(ctx context.Context, tenant uuid.UUID, id int64) (*ListedDeadLetter, error) {
	rows, err := collect(ctx, d.pool, "find_dead_letter", pgx.RowToStructByPos[ListedDeadLetter], id, [16]byte(tenant))
	if err != nil || len(rows) == 0 {
		return nil, err
	}
	return &rows[0], nil
}

// TakeDeadLetter removes a dead letter when the bundle commits; false when it is gone already.
func (t *BundleTx) TakeDeadLetter(id int64) (there bool, err error) {
	err = t.conn.QueryRow(t.ctx, statement("take_dead_letter"), id).Scan(new(int64))
	if errors.Is(err, pgx.ErrNoRows) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("take dead letter: %w", err)
	}
	return true, nil
}
