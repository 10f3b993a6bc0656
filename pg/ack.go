package pg

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
)

// Cursor is a cursor as an ack sees it. BatchEnd is -1 without a lease.
type Cursor struct {
	ID        int64
	Committed int64
	BatchEnd  int64
	Lease     uuid.UUID
	// Live says that Lease is held and has not expired.
	Live  bool
	Retry int
	Group int64
	// Conflation is the group's policy.
	Conflation bool
	// QueueVersion is that of the queue's options; only AckSet reads it.
	QueueVersion int64
}

// ErrNoCursor says that the group has no cursor in the partition.
var ErrNoCursor = errors.New("no such cursor")

// DeadLetter is a message that a group gave up.
type DeadLetter struct {
	Queue         int64
	Partition     int64
	Group         string
	Offset        int64
	MessageID     uuid.UUID
	TransactionID string
	ProducerSub   string
	// Payload is JSON, or encrypted with Sealed.
	Payload    []byte
	Sealed     bool
	Error      string
	RetryCount int
	// PushedAt is when the message was pushed.
	PushedAt time.Time
}

// AckTx is one set of acks in the middle of its transaction, its cursor locked.
type AckTx struct {
	Cursor Cursor
	ctx    context.Context
	tx     runner
}

// AckSet locks the group's cursor in the partition and lets decide say what to write. ErrNoCursor when there is none.
func (d *DB) AckSet(ctx context.Context, queue, partition int64, group string, decide func(*AckTx) error) error {
	return d.write(ctx, func(tx pgx.Tx) error {
		a := &AckTx{ctx: ctx, tx: tx}
		c := &a.Cursor
		var lease *[16]byte
		err := tx.QueryRow(ctx, statement("ack_cursor"), queue, partition, group).
			Scan(&c.ID, &c.Committed, &c.BatchEnd, &lease, &c.Live, &c.Retry, &c.Group, &c.Conflation, &c.QueueVersion)
		if errors.Is(err, pgx.ErrNoRows) {
			return ErrNoCursor
		}
		if err != nil {
			return err
		}
		if lease != nil {
			c.Lease = *lease
		}
		return decide(a)
	})
}

// IDsAfter returns up to limit segments, without bodies, that reach past low, on the transaction's own connection.
func (a *AckTx) IDsAfter(ctx context.Context, partition, low int64, limit int) ([]Segment, error) {
	return idsAfter(ctx, a.tx, partition, low, limit)
}

// FindIDs is DB.FindIDs on the transaction's own connection.
func (a *AckTx) FindIDs(ctx context.Context, queries []IDQuery, window time.Duration) ([]Found, error) {
	return findIDs(ctx, a.tx, queries, window)
}

// Segment reads the segment that holds offset, the zero Segment when it is gone.
func (a *AckTx) Segment(partition, base int64) (s Segment, err error) {
	var ord int
	err = a.tx.QueryRow(a.ctx, statement("read_segments"), []int64{partition}, []int64{base}).
		Scan(&ord, &s.Base, &s.CreatedAt, &s.Count, &s.Format, &s.IDs, &s.Body)
	if errors.Is(err, pgx.ErrNoRows) {
		return Segment{}, nil
	}
	return s, err
}

// Write stores the decision: the new committed offset and retry count, and whether the lease ends.
func (a *AckTx) Write(committed int64, release bool, retry int) error {
	_, err := a.tx.Exec(a.ctx, statement("ack_write"), a.Cursor.ID, committed, release, retry)
	return err
}

// Bury stores a dead letter.
func (a *AckTx) Bury(l DeadLetter) error {
	var sub *string
	if l.ProducerSub != "" {
		sub = &l.ProducerSub
	}
	_, err := a.tx.Exec(a.ctx, statement("bury"), l.Queue, l.Partition, l.Group, l.Offset, [16]byte(l.MessageID),
		l.TransactionID, sub, l.Payload, []byte(l.Error), l.RetryCount, l.Sealed, l.PushedAt)
	return err
}

// PeekCursors reads the group's cursors in the partitions without a lock, at the same index; the zero Cursor where
// there is none.
func (d *DB) PeekCursors(ctx context.Context, queues, partitions []int64, group string) ([]Cursor, error) {
	rows, err := d.pool.Query(ctx, statement("ack_peek"), queues, partitions, group)
	if err != nil {
		return nil, fmt.Errorf("peek cursors: %w", err)
	}
	out := make([]Cursor, len(partitions))
	var i int
	var c Cursor
	var lease *[16]byte
	_, err = pgx.ForEachRow(rows, []any{&i, &c.ID, &c.Committed, &c.BatchEnd, &lease, &c.Live, &c.Retry, &c.Group, &c.Conflation}, func() error {
		out[i] = c
		if lease != nil {
			out[i].Lease = *lease
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("peek cursors: %w", err)
	}
	return out, nil
}

// IDsBetween returns for each partition the segments, without bodies, that reach into (low, high].
func (d *DB) IDsBetween(ctx context.Context, partitions, low, high []int64) ([][]Segment, error) {
	return idsBetween(ctx, d.pool, partitions, low, high)
}

func idsBetween(ctx context.Context, db querier, partitions, low, high []int64) ([][]Segment, error) {
	rows, err := db.Query(ctx, statement("ids_between"), partitions, low, high)
	if err != nil {
		return nil, fmt.Errorf("read ids: %w", err)
	}
	out := make([][]Segment, len(partitions))
	var i int
	var s Segment
	_, err = pgx.ForEachRow(rows, []any{&i, &s.Base, &s.CreatedAt, &s.Count, &s.IDs}, func() error {
		out[i] = append(out[i], s)
		s = Segment{}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("read ids: %w", err)
	}
	return out, nil
}

// IDsAfter returns up to limit segments of the partition, without bodies, that reach past low, oldest first.
func (d *DB) IDsAfter(ctx context.Context, partition, low int64, limit int) ([]Segment, error) {
	return idsAfter(ctx, d.pool, partition, low, limit)
}

func idsAfter(ctx context.Context, db querier, partition, low int64, limit int) ([]Segment, error) {
	return collect(ctx, db, "ids_after", func(row pgx.CollectableRow) (s Segment, err error) {
		err = row.Scan(&s.Base, &s.CreatedAt, &s.Count, &s.IDs)
		return s, err
	}, partition, low, limit)
}

// ExtendLease renews every live cursor of the tenant under the lease; cursor is the one the lease id names, or 0.
func (d *DB) ExtendLease(ctx context.Context, tenant, lease uuid.UUID, cursor int64, seconds int) (renewed int, expires time.Time, err error) {
	var at *time.Time
	err = d.write(ctx, func(tx pgx.Tx) error {
		return tx.QueryRow(ctx, statement("extend_lease"), [16]byte(lease), cursor, [16]byte(tenant), seconds).Scan(&renewed, &at)
	})
	if err != nil {
		return 0, expires, fmt.Errorf("extend lease: %w", err)
	}
	if at != nil {
		expires = at.UTC()
	}
	return renewed, expires, nil
}

// GiveBack ends the lease on the cursors as if they had not been claimed.
func (d *DB) GiveBack(ctx context.Context, lease uuid.UUID, cursors []int64) error {
	return d.write(ctx, func(tx pgx.Tx) error {
		_, err := tx.Exec(ctx, statement("give_back"), [16]byte(lease), cursors)
		return err
	})
}

// ReturnClaims ends leases that a flush may have taken although its answer was lost.
func (d *DB) ReturnClaims(ctx context.Context, claims []Claim) error {
	partitions, groups := make([]int64, len(claims)), make([]int64, len(claims))
	leases := make([][16]byte, len(claims))
	for i, c := range claims {
		partitions[i], groups[i], leases[i] = c.Partition, c.Group, c.Lease
	}
	return d.write(ctx, func(tx pgx.Tx) error {
		_, err := tx.Exec(ctx, statement("return_claims"), partitions, groups, leases)
		return err
	})
}
