package broker

import (
	"context"

	"github.com/google/uuid"
)

// HandleWake takes a hint of another broker. Without a tenant it counts for every tenant that has the queue; without a
// partition, for the whole queue. Over-waking costs an empty look.
func (b *Broker) HandleWake(tenant *uuid.UUID, queue, partition string) {
	w := b.watch
	b.tidings.tell(queue)
	w.mu.Lock()
	for key := range w.missing.hinted(tenant, queue) {
		w.appeared(key)
	}
	queues := w.hinted(tenant, queue)
	if partition == "" && len(queues) > 0 {
		w.lookSoon()
	}
	w.mu.Unlock()
	if partition == "" {
		b.metrics.wakes.WithLabelValues("queue").Add(float64(len(queues)))
		return
	}
	b.metrics.wakes.WithLabelValues("partition").Add(float64(len(queues)))
	var unknown []partitionKey
	for _, q := range queues {
		key := partitionKey{q.id, partition}
		if p := b.catalog.cachedPartition(key); p != nil {
			w.touched(p)
		} else {
			unknown = append(unknown, key)
		}
	}
	if len(unknown) > 0 {
		b.touchUnknown(unknown)
	}
}

// touchUnknown resolves partitions that one hint named and this broker had not met, all with one question: by itself
// while few hints do so, else by a look that finds all of them.
func (b *Broker) touchUnknown(keys []partitionKey) {
	select {
	case b.unknown <- struct{}{}:
	default:
		b.Repair()
		return
	}
	started := b.spawn(func() {
		defer func() { <-b.unknown }()
		ctx, cancel := context.WithTimeout(b.ctx, dbTimeout)
		defer cancel()
		found, err := b.catalog.findPartitions(ctx, keys)
		if err != nil || len(found) == 0 {
			b.Repair()
			return
		}
		for _, p := range found {
			b.watch.touched(p)
		}
	})
	if !started {
		<-b.unknown
	}
}

// HandleCursorsMoved looks at once whether the cursors of the group, or with an empty name of any group of the queue,
// were moved: their generation tells. Nobody needs the look while nobody is parked here.
func (b *Broker) HandleCursorsMoved(tenant *uuid.UUID, queue, group string) {
	w := b.watch
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, q := range w.hinted(tenant, queue) {
		for _, s := range w.byQueue[q.id] {
			if group == "" || s.name == group {
				w.lookSoon()
				return
			}
		}
	}
}

// HandleInvalidation drops what is remembered of a queue's options, and looks whether its cursors were moved.
func (b *Broker) HandleInvalidation(tenant *uuid.UUID, queue string) {
	if tenant == nil {
		b.catalog.invalidateName(queue)
	} else {
		b.catalog.invalidate(queueKey{*tenant, queue})
	}
	b.watch.mu.Lock()
	defer b.watch.mu.Unlock()
	if len(b.watch.hinted(tenant, queue)) > 0 {
		b.watch.lookSoon()
	}
}

// Repair makes up for hints that may have been lost.
func (b *Broker) Repair() {
	b.watch.mu.Lock()
	defer b.watch.mu.Unlock()
	b.watch.lookSoon()
}
