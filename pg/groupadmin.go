package pg

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
)

// Seek says where the cursors of a group are to stand.
type Seek struct {
	Queue QueueName
	Group string
	// Partition limits the seek to one partition.
	Partition *string
	// ToEnd means the tail, else the first segment created at or after At.
	ToEnd bool
	At    time.Time
}

// Moved says what became of a group's cursors. Queue is the row's id.
type Moved struct {
	Queue      int64
	Generation int64
	Cursors    int
}

// ErrNoPartition says that the queue has no partition that was meant.
var ErrNoPartition = errors.New("no such partition")

// SeekPageSize is how many cursors one transaction of a seek holds.
const SeekPageSize = 10000

// SeekGroup moves the group's cursors in all partitions of the queue, in transactions of a bounded size; a partition
// without a cursor gets one, and so does a group without a row. Each transaction raises the group's generation.
// ErrNoQueue and ErrNoPartition say that there was nothing to move. size is SeekPageSize but in tests.
func (d *DB) SeekGroup(ctx context.Context, seek Seek, size int) (moved Moved, err error) {
	after, first := "", true
	if seek.Partition != nil {
		after = *seek.Partition
	}
	for {
		var page Moved
		var partitions int
		err := d.write(ctx, func(tx pgx.Tx) (err error) {
			page, partitions, after, err = seekPage(ctx, tx, seek, after, first, size)
			if err == nil && partitions == 0 && first {
				err = ErrNoPartition
			}
			return err
		})
		if err != nil {
			return moved, fmt.Errorf("seek group: %w", err)
		}
		first = false
		moved.Queue, moved.Generation = page.Queue, page.Generation
		moved.Cursors += page.Cursors
		if partitions < size || seek.Partition != nil {
			return moved, nil
		}
	}
}

func seekPage(ctx context.Context, tx pgx.Tx, seek Seek, after string, first bool, size int) (moved Moved, partitions int, last string, err error) {
	last = after
	if moved.Queue, err = holdNamed(ctx, tx, seek.Queue); err != nil {
		return moved, 0, last, err
	}
	var group int64
	if err := tx.QueryRow(ctx, statement("raise_generation"), moved.Queue, seek.Group).Scan(&group, &moved.Generation); err != nil {
		return moved, 0, last, err
	}
	var name string
	err = tx.QueryRow(ctx, statement("seek_page"), moved.Queue, group, seek.ToEnd, seek.At, after, first, size, seek.Partition != nil).
		Scan(&moved.Cursors, &partitions, &name)
	if err == nil && partitions > 0 {
		last = name
	}
	return moved, partitions, last, err
}

func holdNamed(ctx context.Context, tx pgx.Tx, queue QueueName) (id int64, err error) {
	err = tx.QueryRow(ctx, statement("hold_queue_named"), [16]byte(queue.Tenant), queue.Name).Scan(&id)
	if errors.Is(err, pgx.ErrNoRows) {
		err = ErrNoQueue
	}
	return id, err
}

// GroupsNamed lists the queues of the tenant in which the group has a row.
func (d *DB) GroupsNamed(ctx context.Context, tenant uuid.UUID, group string) ([]string, error) {
	return collect(ctx, d.pool, "groups_named", pgx.RowTo[string], [16]byte(tenant), group)
}

// DeleteGroup removes the group's cursors in the queue, and with row set the group itself; otherwise its generation is
// raised. ErrNoQueue or ErrNoGroup when there is nothing to delete.
func (d *DB) DeleteGroup(ctx context.Context, queue QueueName, group string, row bool) (moved Moved, err error) {
	err = d.write(ctx, func(tx pgx.Tx) (err error) {
		if moved.Queue, err = holdNamed(ctx, tx, queue); err != nil {
			return err
		}
		hold := "bump_generation"
		if row {
			hold = "hold_group"
		}
		var id int64
		err = tx.QueryRow(ctx, statement(hold), moved.Queue, group).Scan(&id, &moved.Generation)
		if errors.Is(err, pgx.ErrNoRows) {
			return ErrNoGroup
		}
		if err != nil {
			return err
		}
		tag, err := tx.Exec(ctx, statement("delete_group_cursors"), moved.Queue, id)
		if err != nil {
			return err
		}
		moved.Cursors = int(tag.RowsAffected())
		if row {
			_, err = tx.Exec(ctx, statement("delete_group_row"), id)
		}
		return err
	})
	if err != nil {
		return moved, fmt.Errorf("delete group: %w", err)
	}
	return moved, nil
}

// Resubscribe lets the registered groups of that name begin at the time in partitions that they have no cursor in, and
// counts them.
func (d *DB) Resubscribe(ctx context.Context, tenant uuid.UUID, group string, at time.Time) (rows int, err error) {
	err = d.write(ctx, func(tx pgx.Tx) error {
		held, err := collect(ctx, tx, "hold_groups_named", pgx.RowTo[int64], [16]byte(tenant), group)
		if err != nil {
			return err
		}
		tag, err := tx.Exec(ctx, statement("resubscribe"), held, at)
		rows = int(tag.RowsAffected())
		return err
	})
	if err != nil {
		return 0, fmt.Errorf("change subscription: %w", err)
	}
	return rows, nil
}
