package seal

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"waggle/broker/segment"
)

// Per message: what sealing costs the lane and opening costs a pop, beside the same without encryption.
func BenchmarkBodies(b *testing.B) {
	ring := testRing(b)
	for _, shape := range []struct{ records, size int }{{1, 256}, {100, 256}, {1000, 256}, {100, 4096}} {
		records := make([]segment.Record, shape.records)
		source := rand.NewChaCha8([32]byte{})
		for i := range records {
			id := fmt.Sprintf("txn-%d", i)
			payload := make([]byte, shape.size/2)
			_, _ = source.Read(payload)
			records[i] = segment.Record{TransactionID: &id, Payload: fmt.Appendf(nil, "%x", payload)}
		}
		builder := build(records)
		plain := new(segment.Packer).Body(builder, segment.Format)
		body := sealed(b, records, ring.Segment(1, 2))
		run := func(name string, work func() error) {
			b.Run(fmt.Sprintf("%s/%dx%d", name, shape.records, shape.size), func(b *testing.B) {
				b.ReportAllocs()
				for b.Loop() {
					require.NoError(b, work())
				}
				b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*shape.records), "ns/message")
			})
		}
		var packer, sealing segment.Packer
		run("pack", func() error { _ = packer.Body(builder, segment.Format); return nil })
		run("seal", func() error { _, err := sealing.Sealed(builder, ring.Segment(1, 2)); return err })
		run("decode", func() error { _, err := segment.Decode(segment.Format, len(records), bytes.Clone(plain)); return err })
		run("open", func() error {
			_, err := segment.Open(segment.Format, len(records), body, ring.Segment(1, 2))
			return err
		})
	}
}
