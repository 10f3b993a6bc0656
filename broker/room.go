package broker

import (
	"context"

	"golang.org/x/sync/semaphore"
)

// room bounds the bytes that wait in lanes, over all requests.
type room struct {
	size int64
	free *semaphore.Weighted
}

func newRoom(size int64) *room { return &room{size: size, free: semaphore.NewWeighted(size)} }

// enter waits for room and returns how to give it back; false when there was none in time. A request larger than
// the whole room passes alone.
func (r *room) enter(ctx context.Context, bytes int) (leave func(), ok bool) {
	n := min(int64(bytes), r.size)
	if !r.free.TryAcquire(n) {
		ctx, cancel := context.WithTimeout(ctx, admissionPatience)
		defer cancel()
		if r.free.Acquire(ctx, n) != nil {
			return nil, false
		}
	}
	return func() { r.free.Release(n) }, true
}
