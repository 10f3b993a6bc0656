package pg

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// Bundle is a transaction of its own in two trips: the first locks, appends and reads, then Decide says what to do about
// it, and the second writes that and commits. An error of Decide rolls everything back, and is what Bundle returns.
type Bundle struct {
	Appends []Append
	// Cursors name distinct cursors.
	Cursors []CursorName
	Decide  func(*BundleTx) error
}

// CursorName says which cursor is meant.
type CursorName struct {
	Queue     int64
	Partition int64
	Group     string
}

// BundleTx is a bundle in the middle of its transaction.
type BundleTx struct {
	// Appendings answer for each partition appended to, in the order in which they were given.
	Appendings []Appending
	// Cursors stand at the indexes of their names; the zero Cursor where there is none.
	Cursors []Cursor

	ctx   context.Context
	conn  runner
	moves cursorMoves
	batch pgx.Batch
}

// cursorMoves hold one entry a cursor that is written.
type cursorMoves struct {
	ids, committed []int64
	release        []bool
	retry          []int32
}

// Move writes the cursor at the index when the bundle commits.
func (t *BundleTx) Move(cursor int, committed int64, release bool, retry int) {
	m := &t.moves
	m.ids, m.committed = append(m.ids, t.Cursors[cursor].ID), append(m.committed, committed)
	m.release, m.retry = append(m.release, release), append(m.retry, int32(retry))
}

// Set gives the cursor at the index what a set of acks may do under its lock, at once and for one trip each.
func (t *BundleTx) Set(cursor int) *AckTx {
	return &AckTx{Cursor: t.Cursors[cursor], ctx: t.ctx, tx: t.conn}
}

// bundleTimeout bounds a bundle from its first byte to its last.
const bundleTimeout = 10 * time.Second

// Bundle runs b once. A lock that was not granted in time is an error of class Contended. When the connection breaks in
// the commit it finds out what happened; ErrUnknownOutcome is left for what cannot be found out.
func (d *DB) Bundle(ctx context.Context, b *Bundle) error {
	ctx, cancel := context.WithTimeout(ctx, bundleTimeout)
	defer cancel()
	conn, err := d.bundles.Acquire(ctx)
	if err != nil {
		return fmt.Errorf("acquire connection: %w", err)
	}
	identity := d.identityOf(conn.Conn())
	xid, err := b.run(ctx, conn.Conn(), d.knows)
	if err != nil && conn.Conn().PgConn().TxStatus() != 'I' && !conn.Conn().IsClosed() {
		// A connection that cannot even do this is thrown away by its pool.
		_, _ = conn.Exec(context.WithoutCancel(ctx), "rollback")
	}
	conn.Release()
	var refused *pgconn.PgError
	switch {
	case err == nil:
		return nil
	case floorRaised(err):
		return ErrFloor
	case xid == 0, errors.As(err, &refused) && refused.Code[:2] != "57" && refused.Code[:2] != "08":
		return err
	}
	if _, err = d.recover(&Flush{}, xid, identity, err); err != nil {
		return err
	}
	return nil
}

// run returns the xid only while the outcome may be in doubt: from sending the commit on.
func (b *Bundle) run(ctx context.Context, conn *pgx.Conn, knows Knows) (doubtful int64, err error) {
	tx := &BundleTx{ctx: ctx, conn: conn}
	xid, err := b.first(ctx, conn, knows, tx)
	if err != nil {
		return 0, err
	}
	if err := b.Decide(tx); err != nil {
		return 0, err
	}
	if m := &tx.moves; len(m.ids) > 0 {
		tx.batch.Queue(statement("bundle_write"), m.ids, m.committed, m.release, m.retry)
	}
	tx.batch.Queue("commit")
	if err := conn.SendBatch(ctx, &tx.batch).Close(); err != nil {
		return xid, fmt.Errorf("commit bundle: %w", err)
	}
	return 0, nil
}

// first is the trip that locks, appends and reads.
func (b *Bundle) first(ctx context.Context, conn *pgx.Conn, knows Knows, tx *BundleTx) (xid int64, err error) {
	batch := &pgx.Batch{}
	batch.Queue("begin")
	batch.Queue(statement("flush_gate"), knows.System, knows.Record).QueryRow(func(row pgx.Row) error {
		return row.Scan(&xid, new(*int32), new(*int32))
	})
	batch.Queue(statement("flush_patience"))
	if len(b.Appends) > 0 {
		b.queueAppends(batch, tx)
	}
	if len(b.Cursors) > 0 {
		b.queueCursors(batch, tx)
	}
	return xid, conn.SendBatch(ctx, batch).Close()
}

func (b *Bundle) queueAppends(batch *pgx.Batch, tx *BundleTx) {
	f := Flush{Appends: b.Appends}
	parts := f.parts()
	number, before := f.layout(parts)
	n := len(parts)
	ids, queues, versions, known := make([]int64, n), make([]int64, n), make([]int64, n), make([]int64, n)
	formats := make([]int16, n)
	tx.Appendings = make([]Appending, n)
	for i, p := range parts {
		ids[i], queues[i], versions[i], formats[i], known[i] = p.Partition, p.Queue, p.Version, p.Format, p.Known
		tx.Appendings[i].Partition = p.Partition
	}
	n = len(b.Appends)
	counts, sizes, hashes, bodies := make([]int, n), make([]int, n), make([][]byte, n), make([][]byte, n)
	for i := range b.Appends {
		a := &b.Appends[i]
		counts[i], sizes[i], hashes[i], bodies[i] = a.Count, a.Size, a.IDs, a.Body
	}
	batch.Queue(statement("flush_lock_wait"), ids)
	var part, outcome int
	var base int64
	var stamp time.Time
	var count *int
	var missed []byte
	batch.Queue(statement("flush_append"), ids, queues, versions, formats, known, number, before, counts, sizes, hashes, bodies).
		Query(func(rows pgx.Rows) error {
			_, err := pgx.ForEachRow(rows, []any{&part, &outcome, &base, &stamp, &count, &missed}, func() error {
				a := &tx.Appendings[part]
				if outcome >= 0 {
					a.Outcome, a.Base, a.CreatedAt = AppendOutcome(outcome), base, stamp.UTC()
					return nil
				}
				a.Missed = append(a.Missed, Segment{Base: base, CreatedAt: stamp.UTC(), Count: *count, IDs: missed})
				missed = nil
				return nil
			})
			return err
		})
}

func (b *Bundle) queueCursors(batch *pgx.Batch, tx *BundleTx) {
	n := len(b.Cursors)
	queues, partitions, groups := make([]int64, n), make([]int64, n), make([]string, n)
	for i, c := range b.Cursors {
		queues[i], partitions[i], groups[i] = c.Queue, c.Partition, c.Group
	}
	tx.Cursors = make([]Cursor, n)
	batch.Queue(statement("bundle_cursors"), queues, partitions, groups).Query(func(rows pgx.Rows) error {
		var i int
		var c Cursor
		var lease *[16]byte
		_, err := pgx.ForEachRow(rows, []any{&i, &c.ID, &c.Committed, &c.BatchEnd, &lease, &c.Live, &c.Retry, &c.Group, &c.Conflation, &c.QueueVersion}, func() error {
			if c.Lease = uuid.Nil; lease != nil {
				c.Lease = *lease
			}
			tx.Cursors[i] = c
			return nil
		})
		return err
	})
}
