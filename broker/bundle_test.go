package broker

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest"

	"waggle/broker/wireid"
	"waggle/pg"
	"waggle/pg/pgtest"
	"waggle/pg/schema"
)

// testBundle is one or more brokers on one database, without a mesh unless a test adds hints.
type testBundle struct {
	t        *testing.T
	database *pgtest.Database
	ids      *wireid.Codec
	brokers  []*Broker
	// knows is what brokers that are added know.
	knows pg.Knows
}

func newBundle(t *testing.T, brokers int, change ...func(*Config)) *testBundle {
	t.Helper()
	return newBundleIn(t, pgtest.New(t), brokers, change...)
}

// newBundleOn stands on a server of its own, which the test may stop.
func newBundleOn(t *testing.T, brokers int, server *pgtest.Server, change ...func(*Config)) *testBundle {
	t.Helper()
	return newBundleIn(t, pgtest.New(t, pgtest.On(server)), brokers, change...)
}

func newBundleIn(t *testing.T, database *pgtest.Database, brokers int, change ...func(*Config)) *testBundle {
	t.Helper()
	ids, err := wireid.NewCodec([]byte("test"))
	require.NoError(t, err)
	bundle := &testBundle{t: t, database: database, ids: ids, knows: pg.Knows{System: schema.BuildKnows, Record: schema.RecordKnows}}
	for range brokers {
		bundle.add(change...)
	}
	return bundle
}

func (tb *testBundle) add(change ...func(*Config)) *Broker {
	tb.t.Helper()
	return tb.addAt(tb.database.URL, change...)
}

func (tb *testBundle) addAt(url string, change ...func(*Config)) *Broker {
	tb.t.Helper()
	db, err := pg.Open(context.Background(), pg.Config{
		URL: url, ApplicationName: "waggle test", MaxConns: 12, Knows: tb.knows,
	})
	require.NoError(tb.t, err)
	config := Config{DB: db, IDs: tb.ids, Logger: zaptest.NewLogger(tb.t, zaptest.Level(zapLevel)), Lanes: 2, SubscriptionMode: "new"}
	for _, c := range change {
		c(&config)
	}
	b := New(config)
	tb.t.Cleanup(func() { b.Close(); db.Close() })
	tb.brokers = append(tb.brokers, b)
	return b
}

// quiet keeps errors that a test brings about on purpose out of its output.
func quiet(c *Config) { c.Logger = zap.NewNop() }

// push pushes payloads {"n":i} for ids txn-i and requires them to be queued.
func (tb *testBundle) push(b *Broker, queue, partition string, from, to int) []PushResult {
	tb.t.Helper()
	var items []PushItem
	for i := from; i < to; i++ {
		items = append(items, item(queue, partition, i))
	}
	results := b.Push(tb.t.Context(), DefaultTenant, "", items)
	for _, r := range results {
		require.Equal(tb.t, Queued, r.Status)
	}
	return results
}

func item(queue, partition string, i int) PushItem {
	return PushItem{
		Queue: queue, Partition: partition, Payload: fmt.Appendf(nil, `{"n":%d}`, i),
		TransactionID: fmt.Sprintf("txn-%d", i), HasTransactionID: true,
	}
}

func request(queue string) PopRequest {
	return PopRequest{Tenant: DefaultTenant, Queue: queue, Batch: 200, Partitions: 1, Timeout: 5 * time.Second}
}

func (tb *testBundle) pop(b *Broker, req PopRequest) *PopAnswer {
	tb.t.Helper()
	answer, err := b.Pop(tb.t.Context(), req)
	require.NoError(tb.t, err)
	return answer
}

func (tb *testBundle) ackAll(b *Broker, group string, answer *PopAnswer) {
	tb.t.Helper()
	if group == "" {
		group = QueueMode
	}
	for _, r := range b.Ack(tb.t.Context(), DefaultTenant, group, acksOf(answer, AckCompleted)) {
		require.Empty(tb.t, r.Error)
		require.True(tb.t, r.Success)
	}
}

func acksOf(answer *PopAnswer, status AckStatus) []AckItem {
	var items []AckItem
	for _, part := range answer.Parts {
		for _, m := range part.Messages {
			items = append(items, AckItem{
				TransactionID: m.TransactionID, PartitionID: part.PartitionID.String(), Status: status, Lease: answer.Lease.String(),
			})
		}
	}
	return items
}

func payloads(answer *PopAnswer) []string {
	if answer == nil {
		return nil
	}
	var out []string
	for _, part := range answer.Parts {
		for _, m := range part.Messages {
			out = append(out, string(m.Payload))
		}
	}
	return out
}

func numbers(from, to int) []string {
	var out []string
	for i := from; i < to; i++ {
		out = append(out, fmt.Sprintf(`{"n":%d}`, i))
	}
	return out
}

func ids(results []PushResult) []uuid.UUID {
	out := make([]uuid.UUID, len(results))
	for i, r := range results {
		out[i] = r.MessageID
	}
	return out
}
