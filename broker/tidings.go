package broker

import (
	"sync"
	"sync/atomic"
)

// tidings tells reads without a cursor, which are in no ready set, that a queue may have something new. It goes by the
// bare name: a reader that is woken for another tenant's queue looks in vain once.
type tidings struct {
	waiting atomic.Int64 // so that a push finds out cheaply that nobody waits
	mu      sync.Mutex
	readers map[string]map[chan struct{}]struct{}
}

func newTidings() *tidings { return &tidings{readers: map[string]map[chan struct{}]struct{}{}} }

// listen returns a channel that gets something after each piece of news of the queues, until stop is called.
func (t *tidings) listen(queues []string) (news chan struct{}, stop func()) {
	news = make(chan struct{}, 1)
	t.waiting.Add(1)
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, queue := range queues {
		if t.readers[queue] == nil {
			t.readers[queue] = map[chan struct{}]struct{}{}
		}
		t.readers[queue][news] = struct{}{}
	}
	return news, func() {
		t.waiting.Add(-1)
		t.mu.Lock()
		defer t.mu.Unlock()
		for _, queue := range queues {
			delete(t.readers[queue], news)
			if len(t.readers[queue]) == 0 {
				delete(t.readers, queue)
			}
		}
	}
}

func (t *tidings) tell(queue string) {
	if t.waiting.Load() == 0 {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	for news := range t.readers[queue] {
		select {
		case news <- struct{}{}:
		default:
		}
	}
}
