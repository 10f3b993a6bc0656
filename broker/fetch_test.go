package broker

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"
)

func (tb *testBundle) fetch(b *Broker, req FetchRequest) []Fetched {
	tb.t.Helper()
	if req.Tenant == uuid.Nil {
		req.Tenant = DefaultTenant
	}
	for i := range req.Entries {
		if req.Entries[i].MaxBytes == 0 {
			req.Entries[i].MaxBytes = 1 << 20
		}
	}
	answers, release, err := b.Fetch(tb.t.Context(), req)
	require.NoError(tb.t, err)
	release()
	return answers
}

func TestFetchReadsByOffsetOnAnyBroker(t *testing.T) {
	t.Parallel()
	tb := newBundle(t, 2)
	a, b := tb.brokers[0], tb.brokers[1]
	for i := range 10 {
		tb.push(a, "q", "p", i*5, i*5+5)
	}
	for _, from := range []*Broker{a, b} {
		got := tb.fetch(from, FetchRequest{Entries: []FetchEntry{
			{Queue: "q", Partition: "p", Offset: 7},
			{Queue: "q", Partition: "p", Offset: 50},
			{Queue: "q", Partition: "p", Offset: 51},
			{Queue: "q", Partition: "none"},
			{Queue: "none", Partition: "p"},
		}})
		require.Len(t, got[0].Records, 43)
		for i, record := range got[0].Records {
			require.EqualValues(t, 7+i, record.Offset)
			require.Equal(t, fmt.Sprint("txn-", 7+i), record.TransactionID)
		}
		require.EqualValues(t, 50, got[0].High)
		require.Zero(t, got[0].Start)
		require.Empty(t, got[1].Records)
		require.Empty(t, got[1].Problem, "the end of the log is no problem")
		require.Equal(t, OffsetOutOfRange, got[2].Problem)
		require.Equal(t, Fetched{}, got[3], "a partition that has nothing yet")
		require.Equal(t, UnknownTopic, got[4].Problem)
		foreign := tb.fetch(from, FetchRequest{Tenant: uuid.New(), Entries: []FetchEntry{{Queue: "q", Partition: "p"}}})
		require.Equal(t, UnknownTopic, foreign[0].Problem)
	}
	one := tb.fetch(b, FetchRequest{Entries: []FetchEntry{{Queue: "q", Partition: "p", Offset: 3, MaxBytes: 1}}})
	require.Len(t, one[0].Records, 1, "one record comes however small the limit")

	existed, err := a.DeleteQueue(t.Context(), DefaultTenant, "q")
	require.NoError(t, err)
	require.True(t, existed)
	require.Equal(t, UnknownTopic, tb.fetch(b, FetchRequest{Entries: []FetchEntry{{Queue: "q", Partition: "p"}}})[0].Problem)
}

func TestFetchMovesNoCursorAndSeesWhatRetentionLeft(t *testing.T) {
	t.Parallel()
	tb := newBundle(t, 1)
	b := tb.brokers[0]
	tb.push(b, "q", "p", 0, 4)
	tb.push(b, "q", "p", 4, 8)
	conn := tb.connect()
	_, err := conn.Exec(t.Context(), "update waggle.segment set body = null where base_offset = 0")
	require.NoError(t, err)
	_, err = conn.Exec(t.Context(), "insert into waggle.log_start (partition_id, live_offset) select id, 4 from waggle.partition")
	require.NoError(t, err)
	got := tb.fetch(b, FetchRequest{Entries: []FetchEntry{
		{Queue: "q", Partition: "p", Offset: 4}, {Queue: "q", Partition: "p", Offset: 3},
	}})
	require.Len(t, got[0].Records, 4)
	require.EqualValues(t, 4, got[0].Start)
	require.Equal(t, OffsetOutOfRange, got[1].Problem)
	require.Len(t, tb.pop(b, request("q")).Parts[0].Messages, 4, "the consumers' cursor stands where it stood")
}

// A waiting fetch is woken by a push here, by a hint, and without hints by its own looks.
func TestFetchWaits(t *testing.T) {
	t.Parallel()
	tb := newBundle(t, 2)
	a, b := tb.brokers[0], tb.brokers[1]
	began := time.Now()
	require.Empty(t, tb.fetch(a, FetchRequest{
		MaxWait: 150 * time.Millisecond, MinBytes: 1, Entries: []FetchEntry{},
	}))
	require.GreaterOrEqual(t, time.Since(began), 140*time.Millisecond)
	tb.push(a, "q", "p", 0, 1)
	for i, pusher := range []*Broker{a, b} {
		answered := make(chan []Fetched, 1)
		go func() {
			answers, release, err := a.Fetch(t.Context(), FetchRequest{
				Tenant: DefaultTenant, MaxWait: 20 * time.Second, MinBytes: 1,
				Entries: []FetchEntry{{Queue: "q", Partition: "p", Offset: int64(1 + i), MaxBytes: 100}},
			})
			if err == nil {
				release()
			}
			answered <- answers
		}()
		require.Eventually(t, func() bool { return a.tidings.waiting.Load() == 1 }, 30*time.Second, time.Millisecond)
		tb.push(pusher, "q", "p", 1+i, 2+i)
		require.Len(t, (<-answered)[0].Records, 1)
	}
	require.Empty(t, a.tidings.readers)
	// A problem is told at once.
	began = time.Now()
	tb.fetch(a, FetchRequest{MaxWait: time.Minute, MinBytes: 1, Entries: []FetchEntry{{Queue: "none", Partition: "p"}}})
	require.Less(t, time.Since(began), 20*time.Second)
}

func TestChangedPartitions(t *testing.T) {
	t.Parallel()
	tb := newBundle(t, 2)
	a, b := tb.brokers[0], tb.brokers[1]
	for i := range 7 {
		tb.push(a, "q", fmt.Sprint("p", i), 0, 2)
	}
	tb.push(a, "other", "p0", 0, 2)
	conn := tb.connect()
	_, err := conn.Exec(t.Context(), "update waggle.segment set created_at = created_at - interval '1 hour'")
	require.NoError(t, err)

	changed := func(b *Broker, entry ChangedEntry) (Changes, ChangedAnswer) {
		if entry.Limit == 0 {
			entry.Limit = 1000
		}
		changes, err := b.Changed(t.Context(), DefaultTenant, []ChangedEntry{entry})
		require.NoError(t, err)
		require.False(t, changes.Degraded)
		return changes, changes.Entries[0]
	}
	first, all := changed(b, ChangedEntry{Queue: "q"})
	require.Len(t, all.Partitions, 7)
	require.EqualValues(t, 1, all.Partitions[0].Last)
	_, none := changed(b, ChangedEntry{Queue: "q", Since: first.Safe})
	require.Empty(t, none.Partitions)
	tb.push(a, "q", "p3", 2, 4)
	tb.push(a, "q", "p5", 2, 4)
	_, two := changed(b, ChangedEntry{Queue: "q", Since: first.Safe})
	require.Len(t, two.Partitions, 2)
	require.Equal(t, "p3", two.Partitions[0].Name)
	require.EqualValues(t, 3, two.Partitions[0].Last)

	// Page by page, by time and by name.
	for _, since := range []time.Time{{}, first.Safe.Add(-2 * time.Hour)} {
		var names []string
		entry := ChangedEntry{Queue: "q", Since: since, Limit: 3}
		for {
			_, page := changed(b, entry)
			for _, p := range page.Partitions {
				names = append(names, p.Name)
			}
			if !page.More {
				break
			}
			entry.After = &names[len(names)-1]
		}
		require.Equal(t, []string{"p0", "p1", "p2", "p3", "p4", "p5", "p6"}, names)
	}
	_, unknown := changed(b, ChangedEntry{Queue: "none"})
	require.Equal(t, UnknownTopic, unknown.Problem)
	empty, err := b.Changed(t.Context(), DefaultTenant, nil)
	require.NoError(t, err)
	require.False(t, empty.Safe.IsZero())
}
