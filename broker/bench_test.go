package broker

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"
	"go.uber.org/zap"

	"waggle/broker/wireid"
	"waggle/pg"
	"waggle/pg/pgtest"
)

// BenchmarkPush is for profiles: go test -bench Push -cpuprofile cpu.out ./broker. Ratios come from `waggle bench`.
func BenchmarkPush(b *testing.B) {
	for _, batch := range []int{1, 100} {
		b.Run(fmt.Sprintf("batch %d", batch), func(b *testing.B) {
			broker := benchBroker(b)
			payload := []byte(`{"text":"` + strings.Repeat("0123456789abcdefghijklmnopqrstuvwxyz", 7)[:240] + `"}`)
			var connection, message atomic.Int64
			b.SetParallelism(map[int]int{1: 128, 100: 8}[batch])
			b.ReportAllocs()
			b.ResetTimer()
			b.RunParallel(func(p *testing.PB) {
				partition := fmt.Sprintf("p%d", connection.Add(1)%16)
				items := make([]PushItem, batch)
				for p.Next() {
					for i := range items {
						items[i] = PushItem{
							Queue: "q", Partition: partition, Payload: payload, HasTransactionID: true,
							TransactionID: fmt.Sprintf("transaction-%d", message.Add(1)),
						}
					}
					for _, r := range broker.Push(context.Background(), DefaultTenant, "", items) {
						if r.Status != Queued {
							b.Fatal(r.Status)
						}
					}
				}
			})
			b.ReportMetric(float64(message.Load())/b.Elapsed().Seconds(), "messages/s")
		})
	}
}

func benchBroker(b *testing.B) *Broker {
	b.Helper()
	ids, err := wireid.NewCodec([]byte("test"))
	require.NoError(b, err)
	db, err := pg.Open(context.Background(), pg.Config{
		URL: pgtest.New(b).URL, ApplicationName: "waggle bench", MaxConns: 12, Knows: pg.Knows{System: 1, Record: 1},
	})
	require.NoError(b, err)
	broker := New(Config{DB: db, IDs: ids, Logger: zap.NewNop(), Registerer: prometheus.NewRegistry(), Lanes: 2})
	b.Cleanup(func() { broker.Close(); db.Close() })
	return broker
}
