package bench

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync/atomic"
	"time"

	"waggle/pg"
)

// blobLoad inserts ready segments of 100 records straight into the cluster's server, one commit each: the least that
// storing a batch can cost.
type blobLoad struct {
	url         string
	connections int
	records     int
	partitions  int
}

// idBytes is what a record takes in the ids column.
const idBytes = 16

// run is closed loop, as pushLoad is. Rows of one partition come from many connections; the offset is drawn from one
// counter so that they never collide.
func (l *blobLoad) run(ctx context.Context, s span) func() *sample {
	var offset atomic.Int64
	return gather(l.connections, func(worker int, c *counter) {
		if err := l.work(ctx, s, worker, c, &offset); err != nil && ctx.Err() == nil {
			c.fail(err)
		}
	})
}

func (l *blobLoad) work(ctx context.Context, s span, worker int, c *counter, offset *atomic.Int64) error {
	conn, err := pg.Connect(ctx, l.url, applicationName)
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close(context.WithoutCancel(ctx)) }()
	random := rand.New(rand.NewPCG(uint64(worker), 3))
	ids, body := make([]byte, l.records*idBytes), make([]byte, l.records*payloadBytes)
	for i := range ids {
		ids[i] = byte(random.Uint32())
	}
	for i := range body {
		body[i] = textBytes[random.IntN(len(textBytes))]
	}
	for ctx.Err() == nil {
		started := time.Now()
		if !started.Before(s.end) {
			return nil
		}
		base := offset.Add(int64(l.records))
		if _, err := conn.Exec(ctx, insertBlob, random.IntN(l.partitions), base, l.records, ids, body); err != nil {
			return fmt.Errorf("insert blob: %w", err)
		}
		if ended := time.Now(); s.holds(ended) {
			c.done(l.records, ended.Sub(started))
		}
	}
	return nil
}
