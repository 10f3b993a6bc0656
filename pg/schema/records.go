package schema

import (
	"context"
	_ "embed"
	"fmt"
	"slices"
	"strings"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"go.uber.org/zap"
)

var (
	//go:embed records_up.sql
	recordsUpSQL string
	//go:embed records_down.sql
	recordsDownSQL string
	//go:embed records_missing.sql
	recordsMissingSQL string
	//go:embed records_hurry.sql
	recordsHurrySQL string
	//go:embed records_floor.sql
	recordsFloorSQL string
	//go:embed record_default_write.sql
	recordDefaultWriteSQL string
	//go:embed record_default_read.sql
	recordDefaultReadSQL string
)

// Queues chooses queues of a tenant; without names all of it, without a tenant those of all.
type Queues struct {
	Tenant *uuid.UUID
	Names  []string
}

// RecordsUp lets the chosen queues write a record format from now on, and shuts builds out that cannot read it. What is
// stored already stays as it is. It returns the queues that were moved. The error is a *BlockedError while a live broker does
// not know the format.
func (m *Migration) RecordsUp(ctx context.Context, queues Queues, format int) ([]QueueFormat, error) {
	return m.moveRecords(ctx, queues, format, true)
}

// RecordsDown lets the chosen queues write an earlier format from now on. A job of the leader then rewrites what is stored,
// and lets older builds in again when nothing of the later format is left.
func (m *Migration) RecordsDown(ctx context.Context, queues Queues, format int) ([]QueueFormat, error) {
	return m.moveRecords(ctx, queues, format, false)
}

func (m *Migration) moveRecords(ctx context.Context, queues Queues, format int, up bool) (moved []QueueFormat, err error) {
	if err := m.checkFormat(ctx, format); err != nil {
		return nil, err
	}
	err = m.underGateLock(ctx, m.applier(), func(tx pgx.Tx) error {
		missing, err := collectText(tx.Query(ctx, recordsMissingSQL, queues.Tenant, queues.Names))
		if err != nil {
			return fmt.Errorf("look for queues: %w", err)
		}
		if len(missing) > 0 {
			return &TargetError{"there is no queue " + strings.Join(missing, ", ")}
		}
		statement := recordsDownSQL
		if up {
			statement = recordsUpSQL
			if err := m.recordsBlocked(ctx, tx, format); err != nil {
				return err
			}
		}
		rows, err := tx.Query(ctx, statement, queues.Tenant, queues.Names, format)
		if err != nil {
			return fmt.Errorf("move queues: %w", err)
		}
		if moved, err = pgx.CollectRows(rows, pgx.RowToStructByPos[QueueFormat]); err != nil {
			return fmt.Errorf("move queues: %w", err)
		}
		if !up {
			if _, err := tx.Exec(ctx, recordsHurrySQL); err != nil {
				return fmt.Errorf("make the job due: %w", err)
			}
		}
		return setRecordFloor(ctx, tx)
	})
	if err != nil {
		return nil, fmt.Errorf("move queues to record format %d: %w", format, err)
	}
	m.options.Logger.Info("record format of queues changed", zap.Int("format", format), zap.Int("queues", len(moved)))
	return moved, nil
}

// SetRecordFormat chooses the format that queues are made with. The error is a *BlockedError while a live broker does not
// know it. With dryRun nothing is changed.
func (m *Migration) SetRecordFormat(ctx context.Context, format int, dryRun bool) error {
	if err := m.checkFormat(ctx, format); err != nil {
		return err
	}
	if dryRun {
		return m.recordsBlocked(ctx, m.conn, format)
	}
	err := m.underGateLock(ctx, m.applier(), func(tx pgx.Tx) error {
		if err := m.recordsBlocked(ctx, tx, format); err != nil {
			return err
		}
		if _, err := tx.Exec(ctx, recordDefaultWriteSQL, format); err != nil {
			return fmt.Errorf("write setting: %w", err)
		}
		return setRecordFloor(ctx, tx)
	})
	if err != nil {
		return fmt.Errorf("choose record format %d for new queues: %w", format, err)
	}
	m.options.Logger.Info("record format of new queues chosen", zap.Int("format", format))
	return nil
}

func (m *Migration) checkFormat(ctx context.Context, format int) error {
	at, err := readPlace(ctx, m.conn, m.options.Steps)
	if err != nil {
		return err
	}
	if at.current < BuildNeeds {
		return &TargetError{fmt.Sprintf("the database is at step %d; `migrate up` brings it to step %d first", at.current, BuildNeeds)}
	}
	if format < RecordNeeds || format > RecordKnows {
		return &TargetError{fmt.Sprintf("this build has no record format %d; it knows formats %d to %d", format, RecordNeeds, RecordKnows)}
	}
	return nil
}

// recordsBlocked is a *BlockedError when a live broker does not know the format.
func (m *Migration) recordsBlocked(ctx context.Context, q rowsQuerier, format int) error {
	members, err := m.members(ctx, q)
	if err != nil {
		return err
	}
	members = slices.DeleteFunc(members, func(b Member) bool { return b.RecordKnows >= format })
	if len(members) > 0 {
		return &BlockedError{What: fmt.Sprintf("record format %d", format), Blockers: members, Needed: format, Records: true}
	}
	return nil
}

func setRecordFloor(ctx context.Context, tx pgx.Tx) error {
	if _, err := tx.Exec(ctx, recordsFloorSQL); err != nil {
		return fmt.Errorf("set record floor: %w", err)
	}
	return nil
}

func collectText(rows pgx.Rows, err error) ([]string, error) {
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, pgx.RowTo[string])
}
