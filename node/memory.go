package node

import (
	"context"
	"os"
	"runtime/debug"
	"runtime/metrics"
	"time"
)

const (
	// gcHeadroom is how far the heap of a small broker may grow between two collections. With the runtime's own rule,
	// which is to double, a broker with little cached collects many times a second for the sake of a few megabytes.
	gcHeadroom  = 128 << 20
	gcPercent   = 100
	gcTuneEvery = 5 * time.Second
)

// tuneCollector keeps the collector's headroom from falling below gcHeadroom. A GOGC that is set is left alone.
func tuneCollector(ctx context.Context) error {
	if os.Getenv("GOGC") != "" {
		return nil
	}
	defer debug.SetGCPercent(gcPercent)
	sample := []metrics.Sample{{Name: "/gc/heap/live:bytes"}}
	ticker := time.NewTicker(gcTuneEvery)
	defer ticker.Stop()
	for {
		metrics.Read(sample)
		debug.SetGCPercent(headroomPercent(sample[0].Value.Uint64()))
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
		}
	}
}

// headroomPercent is the GOGC with which a heap of live bytes may grow by gcHeadroom, or double.
func headroomPercent(live uint64) int {
	return int(max(gcPercent, gcHeadroom*100/max(live, 4<<20)))
}
