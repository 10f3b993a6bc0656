package pg

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// ErrUnknownOutcome says that nobody can tell any more whether the flush was committed.
var ErrUnknownOutcome = errors.New("outcome of the commit is unknown")

// outcomePatience is how long a lost commit is asked for while the server is away or still busy with it.
const outcomePatience = 15 * time.Second

// recover asks a server what became of the transaction whose commit got no answer.
func (d *DB) recover(f *Flush, xid int64, identity Identity, cause error) (*Flushed, error) {
	ctx, cancel := context.WithTimeout(context.Background(), outcomePatience)
	defer cancel()
	for wait := 20 * time.Millisecond; ; wait = min(2*wait, time.Second) {
		result, err := d.askOutcome(ctx, f, xid, identity)
		switch {
		case err == nil && result != nil:
			return result, nil
		case errors.Is(err, errRolledBack):
			return nil, fmt.Errorf("%w: %w", err, cause)
		case errors.Is(err, ErrUnknownOutcome):
			return nil, fmt.Errorf("%w: %w", err, cause)
		}
		select {
		case <-ctx.Done():
			return nil, fmt.Errorf("%w: %w", ErrUnknownOutcome, cause)
		case <-time.After(wait):
		}
	}
}

// errRolledBack is the certainty that nothing was written.
var errRolledBack = errors.New("rolled back")

// askOutcome returns nil, nil while the transaction is still in progress.
func (d *DB) askOutcome(ctx context.Context, f *Flush, xid int64, before Identity) (*Flushed, error) {
	conn, err := d.pool.Acquire(ctx)
	if err != nil {
		return nil, err
	}
	defer conn.Release()
	var now Identity
	var status *string
	err = conn.QueryRow(ctx, statement("flush_outcome"), strconv.FormatInt(xid, 10)).Scan(&now.System, &now.Timeline, &status)
	if err != nil {
		return nil, err
	}
	switch {
	case now != before || status == nil:
		return nil, ErrUnknownOutcome
	case *status == "aborted":
		return nil, errRolledBack
	case *status != "committed":
		return nil, nil
	}
	result := &Flushed{Recovered: true}
	if len(f.Appends) == 0 {
		return result, nil
	}
	var ids, known []int64
	for _, p := range f.parts() {
		ids, known = append(ids, p.Partition), append(known, p.Known)
		result.Appendings = append(result.Appendings, Appending{Partition: p.Partition, Outcome: Skipped})
	}
	rows, err := conn.Query(ctx, statement("flush_written"), xid, ids, known)
	if err != nil {
		return nil, err
	}
	var partition, base int64
	var createdAt time.Time
	_, err = pgx.ForEachRow(rows, []any{&partition, &base, &createdAt}, func() error {
		for i := range result.Appendings {
			if a := &result.Appendings[i]; a.Partition == partition && a.Outcome == Skipped {
				a.Outcome, a.Base, a.CreatedAt = Appended, base, createdAt.UTC()
			}
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return result, nil
}

// floorRaised recognises the fence of flush_gate before any class of error.
func floorRaised(err error) bool {
	var refused *pgconn.PgError
	return errors.As(err, &refused) && refused.Code == "22P02" && strings.Contains(refused.Message, "WG0023")
}

// Class tells what a failed transaction means for what it carried.
type Class int

// Classes of failure. Whole is retried or failed as one; Split may be one item's fault, so the items are tried apart;
// Contended is worth trying again as it is.
const (
	Whole Class = iota
	Split
	Contended
)

// Classify sorts an error by SQLSTATE class. What is known to be rolled back because its connection broke is worth
// another try: the next one finds out whether the server is there.
func Classify(err error) Class {
	if errors.Is(err, errRolledBack) {
		return Contended
	}
	var refused *pgconn.PgError
	if !errors.As(err, &refused) {
		return Whole
	}
	switch refused.Code[:2] {
	case "21", "22", "23", "54":
		return Split
	case "40", "55":
		return Contended
	default:
		return Whole
	}
}
