package pg_test

import (
	"context"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"waggle/pg"
	"waggle/pg/pgtest"
)

// flushBundle is a database with one queue, as the flush statements see it.
type flushBundle struct {
	t     *testing.T
	url   string
	db    *pg.DB
	queue pg.Queue
}

func newFlushBundle(t *testing.T) *flushBundle {
	t.Helper()
	database := pgtest.New(t)
	db, err := pg.Open(t.Context(), pg.Config{URL: database.URL, ApplicationName: "flush test", MaxConns: 8, Knows: pg.Knows{System: 1, Record: 1}})
	require.NoError(t, err)
	t.Cleanup(db.Close)
	queues, err := db.EnsureQueues(t.Context(), []pg.NewQueue{{QueueName: pg.QueueName{Tenant: uuid.UUID{1}, Name: "q"}}}, []byte("{}"))
	require.NoError(t, err)
	return &flushBundle{t: t, url: database.SuperURL, db: db, queue: queues[0]}
}

func (b *flushBundle) partition(name string) int64 {
	b.t.Helper()
	found, err := b.db.EnsurePartitions(b.t.Context(), []pg.PartitionName{{Queue: b.queue.ID, Name: name}})
	require.NoError(b.t, err)
	return found[0].ID
}

// hash is an id of a record; 0 is that of a record without one.
func hash(n byte) []byte { return append(make([]byte, 15), n) }

func (b *flushBundle) append(partition, known int64, hashes ...byte) pg.Append {
	a := pg.Append{
		Partition: partition, Queue: b.queue.ID, Version: b.queue.Version, Format: 1, Known: known, Count: len(hashes),
		Size: 10 * len(hashes), Body: []byte("body"),
	}
	for _, h := range hashes {
		a.IDs = append(a.IDs, hash(h)...)
	}
	return a
}

func (b *flushBundle) flush(f pg.Flush) *pg.Flushed {
	b.t.Helper()
	result, err := b.db.Flush(b.t.Context(), &f)
	require.NoError(b.t, err)
	return result
}

func (b *flushBundle) connect() *pgx.Conn {
	b.t.Helper()
	conn, err := pgx.Connect(b.t.Context(), b.url)
	require.NoError(b.t, err)
	b.t.Cleanup(func() { conn.Close(context.Background()) })
	return conn
}

func TestAppendOutcomes(t *testing.T) {
	t.Parallel()
	b := newFlushBundle(t)
	p, held := b.partition("p"), b.partition("held")
	conn := b.connect()
	tx, err := conn.Begin(t.Context())
	require.NoError(t, err)
	_, err = tx.Exec(t.Context(), "select from waggle.partition where id = $1 for no key update", held)
	require.NoError(t, err)

	stale := b.append(b.partition("stale"), -1, 1)
	stale.Version++
	format := b.append(b.partition("format"), -1, 1)
	format.Format = 2
	result := b.flush(pg.Flush{Appends: []pg.Append{
		b.append(p, 0, 1, 2), b.append(p, 0, 3), b.append(held, 0, 1), b.append(1<<40, -1, 1), stale, format,
	}})
	outcomes := []pg.AppendOutcome{}
	for _, a := range result.Appendings {
		outcomes = append(outcomes, a.Outcome)
	}
	require.Equal(t, []pg.AppendOutcome{pg.Appended, pg.Skipped, pg.Gone, pg.Stale, pg.Stale}, outcomes)
	require.Equal(t, int64(0), result.Appendings[0].Base)
	require.NoError(t, tx.Rollback(t.Context()))
	first := result.Appendings[0].CreatedAt

	t.Run("a hash at or after the known head is refused with all of its partition", func(t *testing.T) {
		result := b.flush(pg.Flush{Appends: []pg.Append{b.append(p, 2, 7), b.append(p, 2, 3), b.append(held, 0, 9)}})
		require.Equal(t, pg.Clash, result.Appendings[0].Outcome)
		require.Equal(t, int64(3), result.Appendings[0].Base)
		require.Len(t, result.Appendings[0].Missed, 1)
		require.Equal(t, hash(3), result.Appendings[0].Missed[0].IDs)
		require.Equal(t, pg.Appended, result.Appendings[1].Outcome)
	})
	t.Run("one before it is the caller's business, and the others learn what they missed", func(t *testing.T) {
		result := b.flush(pg.Flush{Appends: []pg.Append{b.append(p, 2, 1)}})
		require.Equal(t, pg.Appended, result.Appendings[0].Outcome)
		require.Equal(t, int64(3), result.Appendings[0].Base)
		require.Len(t, result.Appendings[0].Missed, 1)
		require.False(t, result.Appendings[0].CreatedAt.Before(first), "times rise with offsets")
	})
	t.Run("records without an id never clash", func(t *testing.T) {
		result := b.flush(pg.Flush{Appends: []pg.Append{b.append(p, 4, 0, 0)}})
		require.Equal(t, pg.Appended, result.Appendings[0].Outcome)
		result = b.flush(pg.Flush{Appends: []pg.Append{b.append(p, 4, 0)}})
		require.Equal(t, pg.Appended, result.Appendings[0].Outcome)
	})
	t.Run("a time in the future is kept up with", func(t *testing.T) {
		_, err := conn.Exec(t.Context(), "update waggle.segment set created_at = clock_timestamp() + interval '1 hour' where partition_id = $1", held)
		require.NoError(t, err)
		result := b.flush(pg.Flush{Appends: []pg.Append{b.append(held, 1, 5)}})
		require.Greater(t, time.Until(result.Appendings[0].CreatedAt), 50*time.Minute)
	})
}

// The claims of a flush see what it appends, fill each pop's batch in order, and give one cursor to one pop.
func TestClaimOutcomes(t *testing.T) {
	t.Parallel()
	b := newFlushBundle(t)
	var partitions []int64
	for _, name := range []string{"a", "b", "c", "d"} {
		partitions = append(partitions, b.partition(name))
	}
	group, err := b.db.RegisterGroup(t.Context(), b.queue.ID, "g", pg.Start{Mode: pg.StartAll})
	require.NoError(t, err)
	claim := func(partition int64, pop int, lease byte, batch, most int) pg.Claim {
		return pg.Claim{
			Partition: partition, Group: group.ID, Queue: b.queue.ID, Version: b.queue.Version, Pop: pop, Lease: uuid.UUID{lease},
			LeaseSeconds: 60, Batch: batch, Partitions: most, LeaseRow: true, CachedFrom: 1 << 60, CachedTo: 1 << 60,
		}
	}
	later := b.partition("later")
	stale := claim(partitions[3], 2, 3, 10, 1)
	stale.Version = 99
	result := b.flush(pg.Flush{
		Appends: []pg.Append{
			b.append(partitions[0], -1, 1, 2, 3), b.append(partitions[1], -1, 1, 2, 3), b.append(partitions[2], -1, 1), b.append(partitions[3], -1, 1),
		},
		Claims: []pg.Claim{
			claim(partitions[0], 0, 1, 5, 2), claim(partitions[1], 0, 1, 5, 2), claim(partitions[2], 0, 1, 5, 2), claim(later, 0, 1, 5, 2),
			claim(partitions[2], 1, 2, 5, 1), claim(partitions[0], 1, 2, 5, 1),
			stale,
		},
	})
	got := result.Claimings
	want := []pg.ClaimOutcome{pg.Claimed, pg.Claimed, pg.Beyond, pg.NoCursor, pg.Locked, pg.Locked, pg.ClaimStale}
	for i, outcome := range want {
		require.Equal(t, outcome, got[i].Outcome, "%d", i)
	}
	require.Equal(t, []int64{0, 2}, []int64{got[0].First, got[0].Last})
	require.Equal(t, []int64{0, 1}, []int64{got[1].First, got[1].Last}, "the batch is shared")
	require.Equal(t, []byte("body"), got[0].Segments[0].Body)
	require.ErrorIs(t, b.db.SeedCursors(t.Context(), 1<<40, []int64{later}, pg.Start{}), pg.ErrNoGroup)
	require.NoError(t, b.db.SeedCursors(t.Context(), group.ID, []int64{later}, pg.Start{}))

	cached := claim(partitions[2], 0, 4, 5, 1)
	cached.CachedFrom, cached.CachedTo = 0, 10
	result = b.flush(pg.Flush{Claims: []pg.Claim{cached, claim(partitions[0], 1, 5, 5, 1), claim(later, 2, 6, 5, 1)}, Relaxed: true})
	got = result.Claimings
	require.Equal(t, []pg.ClaimOutcome{pg.Claimed, pg.Leased, pg.Empty}, []pg.ClaimOutcome{got[0].Outcome, got[1].Outcome, got[2].Outcome})
	require.Nil(t, got[0].Segments[0].Body)
	require.InDelta(t, 60, got[1].Remaining.Seconds(), 5)

	renewed, _, err := b.db.ExtendLease(t.Context(), uuid.UUID{1}, uuid.UUID{1}, 0, 90)
	require.NoError(t, err)
	require.Equal(t, 2, renewed)
	require.NoError(t, b.db.ReturnClaims(t.Context(), []pg.Claim{claim(partitions[0], 0, 1, 5, 2), claim(partitions[1], 0, 9, 5, 2)}))
	result = b.flush(pg.Flush{Claims: []pg.Claim{claim(partitions[0], 0, 7, 5, 1), claim(partitions[1], 1, 8, 5, 1)}})
	got = result.Claimings
	require.Equal(t, pg.Claimed, got[0].Outcome)
	require.Equal(t, 1, got[0].Attempt, "what came back was no delivery")
	require.Equal(t, pg.Leased, got[1].Outcome, "another lease is not touched")

	ack := b.flush(pg.Flush{Acks: []pg.Ack{
		{Cursor: got[0].Cursor, Lease: uuid.UUID{7}, Upto: 1}, {Cursor: got[1].Cursor, Lease: uuid.UUID{9}, Upto: 1}, {Cursor: 1 << 40, Lease: uuid.UUID{7}},
	}})
	require.Len(t, ack.Ackings, 2)
	for _, a := range ack.Ackings {
		require.Equal(t, a.Cursor == got[0].Cursor, a.Moved)
	}
}

// The segments of an answer end where its bytes do, and a pop that finds no room in a flush takes nothing.
func TestClaimsAreCutByBytes(t *testing.T) {
	t.Parallel()
	b := newFlushBundle(t)
	var appends []pg.Append
	var partitions []int64
	for _, name := range []string{"a", "b", "c", "d"} {
		p := b.partition(name)
		partitions = append(partitions, p)
		for range 4 {
			a := b.append(p, -1, 1)
			a.Size = 10 << 20
			appends = append(appends, a)
		}
	}
	group, err := b.db.RegisterGroup(t.Context(), b.queue.ID, "g", pg.Start{Mode: pg.StartAll})
	require.NoError(t, err)
	b.flush(pg.Flush{Appends: appends})
	var claims []pg.Claim
	for i, p := range partitions {
		claims = append(claims, pg.Claim{
			Partition: p, Group: group.ID, Queue: b.queue.ID, Version: b.queue.Version, Pop: i, Lease: uuid.UUID{byte(i + 1)},
			LeaseSeconds: 60, Batch: 100, Partitions: 1, LeaseRow: true,
		})
	}
	got := b.flush(pg.Flush{Claims: claims}).Claimings
	require.Equal(t, []pg.ClaimOutcome{pg.Claimed, pg.Claimed, pg.Beyond, pg.Beyond},
		[]pg.ClaimOutcome{got[0].Outcome, got[1].Outcome, got[2].Outcome, got[3].Outcome})
	require.Equal(t, []int64{2, 2}, []int64{got[0].Last, got[1].Last})
	require.Len(t, got[0].Segments, 3)
}

// What one flush costs grows with what it carries, not with its square.
func TestALargeFlushIsLinear(t *testing.T) {
	t.Parallel()
	b := newFlushBundle(t)
	group, err := b.db.RegisterGroup(t.Context(), b.queue.ID, "g", pg.Start{Mode: pg.StartAll})
	require.NoError(t, err)
	names := make([]pg.PartitionName, 4000)
	for i := range names {
		names[i] = pg.PartitionName{Queue: b.queue.ID, Name: uuid.NewString()}
	}
	partitions, err := b.db.EnsurePartitions(t.Context(), names)
	require.NoError(t, err)
	ids := make([]int64, len(partitions))
	for i, p := range partitions {
		ids[i] = p.ID
	}
	require.NoError(t, b.db.SeedCursors(t.Context(), group.ID, ids, pg.Start{}))
	run := func(n int) time.Duration {
		f := pg.Flush{}
		for i, id := range ids[:n] {
			f.Appends = append(f.Appends, b.append(id, 0, 1, 2, 3))
			f.Claims = append(f.Claims, pg.Claim{
				Partition: id, Group: group.ID, Queue: b.queue.ID, Version: b.queue.Version, Pop: i, Lease: uuid.New(), LeaseSeconds: 60,
				Batch: 1, Partitions: 1, AutoAck: true, LeaseRow: true,
			})
		}
		started := time.Now()
		b.flush(f)
		return time.Since(started)
	}
	run(4000) // what follows misses what this one wrote, and clashes with all of it
	small := min(run(400), run(400), run(400))
	large := min(run(4000), run(4000))
	require.Less(t, large, 40*small+500*time.Millisecond, "%v for 400, %v for 4000", small, large)
}
