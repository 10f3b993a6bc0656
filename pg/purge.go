package pg

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"
)

const (
	purgePartitions = 100
	purgeSegments   = 200
	// purgeBytes bounds the bodies deleted by one transaction: each of them is hundreds of rows of its own inside the
	// server.
	purgeBytes = 8 << 20
)

// Purge removes segments of deleted queues, a bounded batch in one transaction. rows counts segments and partitions
// done with. Two runs at once take different partitions.
func (f *Fenced) Purge(ctx context.Context) (rows int64, more bool, err error) {
	err = f.Do(ctx, func(ctx context.Context, tx pgx.Tx) error {
		found, err := tx.Query(ctx, statement("purge_pick"), purgePartitions)
		if err != nil {
			return err
		}
		picked, err := pgx.CollectRows(found, pgx.RowTo[int64])
		if err != nil || len(picked) == 0 {
			return err
		}
		segments, err := tx.Exec(ctx, statement("purge_segments"), picked, purgeSegments, int64(purgeBytes))
		if err != nil {
			return err
		}
		partitions, err := tx.Exec(ctx, statement("purge_finish"), picked)
		if err != nil {
			return err
		}
		rows = segments.RowsAffected() + partitions.RowsAffected()
		more = len(picked) == purgePartitions || partitions.RowsAffected() < int64(len(picked))
		return nil
	})
	if err != nil {
		return 0, false, fmt.Errorf("purge: %w", err)
	}
	return rows, more && rows > 0, nil
}
