package pg

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
)

// StartMode is where a group begins in a partition that it has no cursor in.
type StartMode int16

// The start modes, as stored.
const (
	StartAll StartMode = iota
	StartNew
	StartFrom
)

// Start is a mode and, for StartFrom, its time.
type Start struct {
	Mode StartMode
	At   time.Time
}

// Group is a consumer group's row. StartAt is the time of registration for StartNew.
type Group struct {
	ID         int64
	Registered bool
	Start      Start
	Generation int64
	// Conflation says that the group is given only the newest message of each partition. It is fixed by the
	// registration: a row of the same id never changes it.
	Conflation bool
}

// ErrNoQueue and ErrNoGroup say that the row is gone.
var (
	ErrNoQueue = errors.New("no such queue")
	ErrNoGroup = errors.New("no such group")
)

// FindGroup returns false when the group has no row.
func (d *DB) FindGroup(ctx context.Context, queue int64, name string) (Group, bool, error) {
	return findGroup(ctx, d.pool, queue, name)
}

func findGroup(ctx context.Context, db interface {
	QueryRow(context.Context, string, ...any) pgx.Row
}, queue int64, name string,
) (g Group, found bool, err error) {
	var at *time.Time
	err = db.QueryRow(ctx, statement("find_group"), queue, name).
		Scan(&g.ID, &g.Registered, &g.Start.Mode, &at, &g.Generation, &g.Conflation)
	if errors.Is(err, pgx.ErrNoRows) {
		return g, false, nil
	}
	if err != nil {
		return g, false, fmt.Errorf("find group: %w", err)
	}
	if at != nil {
		g.Start.At = *at
	}
	return g, true, nil
}

// RegisterGroup fixes where the group starts, unless it is registered already, and gives it a cursor in every
// partition there is. A partition without a cursor is newer than the registration afterwards.
func (d *DB) RegisterGroup(ctx context.Context, queue int64, name string, start Start) (g Group, err error) {
	err = d.write(ctx, func(tx pgx.Tx) error {
		if err := holdQueue(ctx, tx, queue); err != nil {
			return err
		}
		tag, err := tx.Exec(ctx, statement("register_group"), queue, name, start.Mode, timeOrNull(start))
		if err != nil {
			return err
		}
		if g, _, err = findGroup(ctx, tx, queue, name); err != nil || tag.RowsAffected() == 0 {
			return err
		}
		_, err = tx.Exec(ctx, statement("seed_all_cursors"), queue, g.ID, start.Mode, timeOrNull(start))
		return err
	})
	if err != nil {
		return g, fmt.Errorf("register group: %w", err)
	}
	return g, nil
}

// RegisterConflating is RegisterGroup for a group that is to be given only the newest message of each partition. A
// group that only popped single partitions so far gets a new row: what brokers know of the old one, the policy, must
// not outlive it, and a claim that names it finds no cursor.
func (d *DB) RegisterConflating(ctx context.Context, queue int64, name string, start Start) (g Group, err error) {
	err = d.write(ctx, func(tx pgx.Tx) error {
		if err := holdQueue(ctx, tx, queue); err != nil {
			return err
		}
		old, found, err := findGroup(ctx, tx, queue, name)
		if err != nil || old.Registered {
			g = old
			return err
		}
		tag, err := tx.Exec(ctx, statement("register_conflating"), queue, name, start.Mode, timeOrNull(start))
		if err != nil {
			return err
		}
		if g, _, err = findGroup(ctx, tx, queue, name); err != nil || tag.RowsAffected() == 0 {
			return err
		}
		if found {
			if _, err := tx.Exec(ctx, statement("move_cursors"), queue, old.ID, g.ID); err != nil {
				return err
			}
		}
		_, err = tx.Exec(ctx, statement("seed_all_cursors"), queue, g.ID, start.Mode, timeOrNull(start))
		return err
	})
	if err != nil {
		return g, fmt.Errorf("register conflating group: %w", err)
	}
	return g, nil
}

// PinGroup gives the group a row without registering it.
func (d *DB) PinGroup(ctx context.Context, queue int64, name string) (g Group, err error) {
	err = d.write(ctx, func(tx pgx.Tx) error {
		if err := holdQueue(ctx, tx, queue); err != nil {
			return err
		}
		if _, err := tx.Exec(ctx, statement("pin_group"), queue, name); err != nil {
			return err
		}
		g, _, err = findGroup(ctx, tx, queue, name)
		return err
	})
	if err != nil {
		return g, fmt.Errorf("pin group: %w", err)
	}
	return g, nil
}

// SeedCursors gives the group cursors in those of the partitions that still exist and have none. A registered group
// begins where its row says, any other at pinned. ErrNoGroup when the group is gone.
func (d *DB) SeedCursors(ctx context.Context, group int64, partitions []int64, pinned Start) error {
	err := d.write(ctx, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, statement("lock_partitions"), partitions); err != nil {
			return err
		}
		start, err := lockGroup(ctx, tx, group, pinned)
		if err != nil {
			return err
		}
		_, err = tx.Exec(ctx, statement("seed_cursors"), partitions, group, start.Mode, timeOrNull(start))
		return err
	})
	if err != nil {
		return fmt.Errorf("seed cursors: %w", err)
	}
	return nil
}

// lockGroup keeps the group and says where it begins in a partition that it has no cursor in.
func lockGroup(ctx context.Context, tx pgx.Tx, group int64, pinned Start) (Start, error) {
	var registered bool
	var start Start
	var at *time.Time
	err := tx.QueryRow(ctx, statement("lock_group"), group).Scan(&registered, &start.Mode, &at)
	if errors.Is(err, pgx.ErrNoRows) {
		return start, ErrNoGroup
	}
	if err != nil || !registered {
		return pinned, err
	}
	return lateStart(start.Mode, at), nil
}

// lateStart is where a registered group begins in a partition that came after its registration, or that it lost its
// cursor in: what was written since is not lost to it.
func lateStart(mode StartMode, at *time.Time) Start {
	if mode == StartAll || at == nil {
		return Start{Mode: StartAll}
	}
	return Start{Mode: StartFrom, At: *at}
}

func holdQueue(ctx context.Context, tx pgx.Tx, queue int64) error {
	held, err := collect(ctx, tx, "lock_queues", pgx.RowTo[int64], []int64{queue})
	if err == nil && len(held) == 0 {
		err = ErrNoQueue
	}
	return err
}

func timeOrNull(start Start) *time.Time {
	if start.Mode != StartFrom {
		return nil
	}
	return &start.At
}
