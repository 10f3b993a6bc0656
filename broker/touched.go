package broker

import (
	"context"
	"sync"
	"time"
)

// touched gathers the partitions whose cursors moved here, for the statistics: they count what changed, and a cursor's
// move leaves no other trace that could be found without looking at all of them.
type touched struct {
	mu         sync.Mutex // guards partitions
	partitions map[int64]struct{}
}

const (
	// maxTouched bounds the partitions that wait to be told of; beyond them the walk of the statistics finds them.
	maxTouched  = 20_000
	touchPeriod = 3 * time.Second
)

func newTouched() *touched { return &touched{partitions: map[int64]struct{}{}} }

func (t *touched) add(partition int64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.partitions) < maxTouched {
		t.partitions[partition] = struct{}{}
	}
}

func (t *touched) take() []int64 {
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.partitions) == 0 {
		return nil
	}
	ids := make([]int64, 0, len(t.partitions))
	for id := range t.partitions {
		ids = append(ids, id)
	}
	clear(t.partitions)
	return ids
}

// FlushTouched tells the statistics which partitions' cursors have moved here.
func (b *Broker) FlushTouched(ctx context.Context) error {
	ids := b.touched.take()
	if len(ids) == 0 {
		return nil
	}
	return b.db.Touch(ctx, ids)
}

// tellTouched does so every few seconds. What cannot be told is found by the walk of the statistics.
func (b *Broker) tellTouched() {
	ticker := time.NewTicker(touchPeriod)
	defer ticker.Stop()
	for {
		select {
		case <-b.ctx.Done():
			return
		case <-ticker.C:
			ctx, cancel := context.WithTimeout(b.ctx, dbTimeout)
			_ = b.FlushTouched(ctx) // best effort by design
			cancel()
		}
	}
}
