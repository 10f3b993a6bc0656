package pg

import (
	"cmp"
	"context"
	"embed"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgconn"
)

//go:embed *.sql
var statements embed.FS

// statement reads the text of one .sql file; a missing one is a mistake of the build.
func statement(name string) string {
	text, err := statements.ReadFile(name + ".sql")
	if err != nil {
		panic(err)
	}
	return string(text)
}

// Segment is a stored segment. Body is nil when retention emptied it or when the caller said that it has it.
type Segment struct {
	Base      int64
	CreatedAt time.Time
	Count     int
	Format    int16
	IDs       []byte
	Body      []byte
}

// Append is one segment to be written. The segments of a partition stand together and in order.
type Append struct {
	Partition int64
	Queue     int64
	// Version is that of the queue's options as the broker knows them.
	Version int64
	Format  int16
	// Known is the head up to which the broker has compared the ids; -1 leaves the comparison out.
	Known int64
	Count int
	// Size is that of the records before compression, as answers count it.
	Size int
	IDs  []byte
	Body []byte
}

// AppendOutcome is what became of a partition's segments.
type AppendOutcome int

// Outcomes of an append; only Appended has written anything.
const (
	Appended AppendOutcome = iota
	Skipped
	Gone
	Stale
	Clash
)

// Appending answers for one partition.
type Appending struct {
	Partition int64
	Outcome   AppendOutcome
	// Base is the offset of the first appended record, or the head.
	Base      int64
	CreatedAt time.Time
	// Missed are the segments, without bodies, at or after the known head.
	Missed []Segment
}

// Ack completes everything up to Upto under Lease.
type Ack struct {
	Cursor int64
	Lease  uuid.UUID
	Upto   int64
}

// Acking is the state of the cursor before the ack, and whether it was moved.
type Acking struct {
	Cursor    int64
	Committed int64
	BatchEnd  int64
	Leased    bool
	Moved     bool
}

// Claim is one candidate partition of a pop.
type Claim struct {
	Partition int64
	Group     int64
	Queue     int64
	Version   int64
	// Pop numbers the pop within the flush; its candidates stand together, in the order in which they are filled.
	Pop          int
	Lease        uuid.UUID
	LeaseSeconds int
	Batch        int
	Partitions   int
	Delay        int
	Quiet        int
	AutoAck      bool
	// LeaseRow says that the lease id names no cursor, so that a row must.
	LeaseRow bool
	// NewestOnly claims everything up to the newest visible record, and gives that one.
	NewestOnly bool
	// Bodies of segments with a base in [CachedFrom, CachedTo) are not sent.
	CachedFrom int64
	CachedTo   int64
}

// ClaimOutcome is what became of a candidate.
type ClaimOutcome int

// Outcomes of a claim.
const (
	Claimed ClaimOutcome = iota
	Empty
	Leased
	Locked
	NoCursor
	ClaimStale
	NotVisible
	Beyond
)

// Claiming answers for one candidate, at the same index.
type Claiming struct {
	Outcome ClaimOutcome
	Cursor  int64
	// First and Last bound what is given; Newest is the partition's last offset.
	First  int64
	Last   int64
	Newest int64
	// Attempt counts the deliveries of the records up to Repeated; for those after it, it is the first.
	Attempt  int
	Repeated int64
	// Remaining is how long the lease, the delay or the quiet time still lasts.
	Remaining time.Duration
	Segments  []Segment
}

// Flush is one transaction that carries everything that waits in a lane.
type Flush struct {
	Appends []Append
	Acks    []Ack
	Claims  []Claim
	// Wait makes the partitions' lock be waited for instead of skipped.
	Wait bool
	// Relaxed lets the commit return before it is on disk: for claims alone, whose loss means redelivery.
	Relaxed bool
}

// Flushed holds an answer for each partition appended to, for each ack whose cursor was not skipped, and for each
// claim. Recovered says that the connection broke in the commit and that only Appendings could be restored.
type Flushed struct {
	Appendings []Appending
	Ackings    []Acking
	Claimings  []Claiming
	Recovered  bool
}

var flushStatements = []string{
	"flush_gate", "flush_patience", "flush_lock", "flush_lock_wait", "flush_append", "flush_ack", "flush_claim",
	"flush_relax",
}

// ErrFloor says that the database has been finalized for newer builds than this one: nothing was written.
var ErrFloor = errors.New("WG0023: the database is newer than this build understands")

const (
	// flushTimeout bounds a flush from the first byte to the last. A session that hangs for longer, because the server
	// lost the process that it waits for, is given up; what became of its transaction is asked on another one.
	flushTimeout = 15 * time.Second
	// popBytes and claimBytes bound the records, before compression, that one pop and all pops of a flush are given.
	popBytes   = 32 << 20
	claimBytes = 64 << 20
)

var binaryFormat = []int16{1}

// Flush runs f as one transaction. When the connection breaks in the commit it finds out what happened, and never
// reports a commit as lost or a loss as committed: ErrUnknownOutcome is left for what cannot be found out.
func (d *DB) Flush(ctx context.Context, f *Flush) (*Flushed, error) {
	ctx, cancel := context.WithTimeout(ctx, flushTimeout)
	defer cancel()
	conn, err := d.flushes.Acquire(ctx)
	if err != nil {
		return nil, fmt.Errorf("acquire connection: %w", err)
	}
	result, xid, err := f.run(ctx, conn.Conn().PgConn(), d.knows)
	identity := d.identityOf(conn.Conn())
	conn.Release()
	if err == nil {
		return result, nil
	}
	if floorRaised(err) {
		return nil, ErrFloor
	}
	var refused *pgconn.PgError
	switch {
	case errors.As(err, &refused) && refused.Code[:2] != "57" && refused.Code[:2] != "08":
		return nil, err
	case xid == 0 && ctx.Err() != nil:
		return nil, err
	case xid == 0:
		// The commit was never sent, so the server rolls back when it finds the connection gone.
		return nil, fmt.Errorf("%w: %w", errRolledBack, err)
	}
	return d.recover(f, xid, identity, err)
}

// run returns the xid only while the outcome may be in doubt: from sending the commit on.
func (f *Flush) run(ctx context.Context, conn *pgconn.PgConn, knows Knows) (*Flushed, int64, error) {
	pipeline := conn.StartPipeline(ctx)
	// Everything up to the Sync is one implicit transaction: an error rolls it back without a further trip.
	prepared, _ := conn.CustomData()[preparedKey].(map[string]*pgconn.StatementDescription)
	send := func(name string, params ...[]byte) {
		// With its description at hand the server need not describe the statement again each time.
		pipeline.SendQueryStatement(prepared[name], params, binaryFormat, binaryFormat)
	}
	send("flush_gate", int4Param(knows.System), int4Param(knows.Record))
	pipeline.SendFlushRequest()
	if f.Relaxed {
		send("flush_relax")
	}
	if len(f.Appends) > 0 {
		f.sendAppends(send)
	}
	if len(f.Acks) > 0 {
		send("flush_ack",
			int8s(f.Acks, func(a *Ack) int64 { return a.Cursor }),
			uuids(f.Acks, func(a *Ack) [16]byte { return a.Lease }),
			int8s(f.Acks, func(a *Ack) int64 { return a.Upto }))
	}
	if len(f.Claims) > 0 {
		f.sendClaims(send)
	}
	pipeline.SendFlushRequest()
	if err := pipeline.Flush(); err != nil {
		return nil, 0, errors.Join(err, pipeline.Close())
	}
	var xid int64
	if err := read(pipeline, func(r *row) { xid = r.int64() }); err != nil {
		return nil, 0, errors.Join(err, pipeline.Close())
	}
	// Only now may the commit be sent: with the xid in hand a lost answer can be asked for.
	if err := pipeline.Sync(); err != nil {
		return nil, xid, errors.Join(err, pipeline.Close())
	}
	result, err := f.readAnswers(pipeline)
	if err != nil {
		return nil, xid, errors.Join(err, pipeline.Close())
	}
	return result, xid, pipeline.Close()
}

// appendPart is a partition of a flush: its segments stand together.
type appendPart struct {
	*Append
	// first and last bound its segments in Flush.Appends.
	first, last int
}

func (f *Flush) parts() []appendPart {
	var parts []appendPart
	for i := range f.Appends {
		if n := len(parts); n > 0 && parts[n-1].Partition == f.Appends[i].Partition {
			parts[n-1].last = i
			continue
		}
		parts = append(parts, appendPart{Append: &f.Appends[i], first: i, last: i})
	}
	return parts
}

// layout tells of each segment the number of its partition, from 1 on, and how many records of that stand before it.
func (f *Flush) layout(parts []appendPart) (number, before []int) {
	number, before = make([]int, 0, len(f.Appends)), make([]int, 0, len(f.Appends))
	for i, p := range parts {
		records := 0
		for at := p.first; at <= p.last; at++ {
			number, before = append(number, i+1), append(before, records)
			records += f.Appends[at].Count
		}
	}
	return number, before
}

func (f *Flush) sendAppends(send func(string, ...[]byte)) {
	parts := f.parts()
	number, before := f.layout(parts)
	ids := int8s(parts, func(p *appendPart) int64 { return p.Partition })
	if f.Wait {
		send("flush_patience")
		send("flush_lock_wait", ids)
	} else {
		send("flush_lock", ids)
	}
	send("flush_append", ids,
		int8s(parts, func(p *appendPart) int64 { return p.Queue }),
		int8s(parts, func(p *appendPart) int64 { return p.Version }),
		int2s(parts, func(p *appendPart) int16 { return p.Format }),
		int8s(parts, func(p *appendPart) int64 { return p.Known }),
		int4s(number, func(n *int) int { return *n }),
		int4s(before, func(n *int) int { return *n }),
		int4s(f.Appends, func(a *Append) int { return a.Count }),
		int4s(f.Appends, func(a *Append) int { return a.Size }),
		byteas(f.Appends, func(a *Append) []byte { return a.IDs }),
		byteas(f.Appends, func(a *Append) []byte { return a.Body }))
}

func (f *Flush) sendClaims(send func(string, ...[]byte)) {
	send("flush_claim",
		int8s(f.Claims, func(c *Claim) int64 { return c.Partition }),
		int8s(f.Claims, func(c *Claim) int64 { return c.Group }),
		int8s(f.Claims, func(c *Claim) int64 { return c.Queue }),
		int8s(f.Claims, func(c *Claim) int64 { return c.Version }),
		int4s(f.Claims, func(c *Claim) int { return c.Pop }),
		uuids(f.Claims, func(c *Claim) [16]byte { return c.Lease }),
		int4s(f.Claims, func(c *Claim) int { return c.LeaseSeconds }),
		int4s(f.Claims, func(c *Claim) int { return c.Batch }),
		int4s(f.Claims, func(c *Claim) int { return c.Partitions }),
		int4s(f.Claims, func(c *Claim) int { return c.Delay }),
		int4s(f.Claims, func(c *Claim) int { return c.Quiet }),
		int4s(f.Claims, (*Claim).flags),
		int8s(f.Claims, func(c *Claim) int64 { return c.CachedFrom }),
		int8s(f.Claims, func(c *Claim) int64 { return c.CachedTo }),
		int8Param(popBytes), int8Param(claimBytes))
}

// flags says what flush_claim.sql does with the claim.
func (c *Claim) flags() (flags int) {
	for i, set := range [...]bool{c.AutoAck, c.LeaseRow, c.NewestOnly} {
		if set {
			flags |= 1 << i
		}
	}
	return flags
}

func (f *Flush) readAnswers(pipeline *pgconn.Pipeline) (*Flushed, error) {
	result := &Flushed{}
	if f.Relaxed {
		if err := read(pipeline, func(*row) {}); err != nil {
			return nil, err
		}
	}
	if len(f.Appends) > 0 {
		locks := 1
		if f.Wait {
			locks = 2 // with flush_patience
		}
		for range locks {
			if err := read(pipeline, func(*row) {}); err != nil {
				return nil, err
			}
		}
		parts := f.parts()
		result.Appendings = make([]Appending, len(parts))
		for i, p := range parts {
			result.Appendings[i].Partition = p.Partition
		}
		if err := read(pipeline, func(r *row) { readAppending(r, result.Appendings) }); err != nil {
			return nil, err
		}
		for i := range result.Appendings {
			slices.SortFunc(result.Appendings[i].Missed, func(a, b Segment) int { return cmp.Compare(a.Base, b.Base) })
		}
	}
	if len(f.Acks) > 0 {
		err := read(pipeline, func(r *row) {
			result.Ackings = append(result.Ackings, Acking{
				Cursor: r.int64(), Committed: r.int64(), BatchEnd: r.int64(), Leased: r.bool(), Moved: r.bool(),
			})
		})
		if err != nil {
			return nil, err
		}
	}
	if len(f.Claims) > 0 {
		result.Claimings = make([]Claiming, len(f.Claims))
		if err := read(pipeline, func(r *row) { readClaiming(r, result.Claimings) }); err != nil {
			return nil, err
		}
	}
	answer, err := pipeline.GetResults()
	if err != nil {
		return nil, err
	}
	if _, ok := answer.(*pgconn.PipelineSync); !ok {
		return nil, fmt.Errorf("%w: %T instead of the end of the flush", errShort, answer)
	}
	return result, nil
}

// read consumes one statement's answer.
func read(pipeline *pgconn.Pipeline, each func(*row)) error {
	answer, err := pipeline.GetResults()
	if err != nil {
		return err
	}
	reader, ok := answer.(*pgconn.ResultReader)
	if !ok {
		return fmt.Errorf("%w: %T instead of rows", errShort, answer)
	}
	var misfit error
	for reader.NextRow() {
		r := &row{values: reader.Values()}
		each(r)
		if r.err != nil {
			misfit = r.err
		}
	}
	if _, err := reader.Close(); err != nil {
		return err
	}
	return misfit
}

// readAppending reads the fate of a partition, or one of the segments that it had got meanwhile.
func readAppending(r *row, all []Appending) {
	part := r.int()
	if part < 0 || part >= len(all) {
		r.err = fmt.Errorf("%w: partition %d of %d", errShort, part, len(all))
		return
	}
	a, outcome := &all[part], r.int()
	s := Segment{Base: r.int64(), CreatedAt: r.time(), Count: r.int(), IDs: r.bytes()}
	if outcome >= 0 {
		a.Outcome, a.Base, a.CreatedAt = AppendOutcome(outcome), s.Base, s.CreatedAt
		return
	}
	a.Missed = append(a.Missed, s)
}

func readClaiming(r *row, all []Claiming) {
	candidate := r.int()
	if candidate < 0 || candidate >= len(all) {
		r.err = fmt.Errorf("%w: candidate %d of %d", errShort, candidate, len(all))
		return
	}
	c := &all[candidate]
	c.Outcome, c.Cursor, c.First, c.Last, c.Newest = ClaimOutcome(r.int()), r.int64(), r.int64(), r.int64(), r.int64()
	c.Attempt, c.Repeated = r.int(), r.int64()
	c.Remaining = time.Duration(max(r.int64(), 0)) * time.Millisecond
	segment := Segment{Base: r.int64(), Count: r.int(), CreatedAt: r.time(), Format: r.int16(), IDs: r.bytes(), Body: r.bytes()}
	if segment.Base >= 0 {
		c.Segments = append(c.Segments, segment)
	}
}
