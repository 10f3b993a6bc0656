package broker

import (
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"waggle/broker/wireid"
	"waggle/pg"
)

// told gathers what a broker says that it is interested in.
type told struct {
	mu     sync.Mutex
	queues map[string]int
}

func (i *told) interested(tenant uuid.UUID, queue string) {
	i.mu.Lock()
	defer i.mu.Unlock()
	if tenant == DefaultTenant {
		i.queues[queue]++
	}
}

func (i *told) times(queue string) int {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.queues[queue]
}

func TestABrokerSaysWhichWakesItWants(t *testing.T) {
	t.Parallel()
	heard := &told{queues: map[string]int{}}
	tb := newBundle(t, 1, func(c *Config) { c.Interested = heard.interested })
	b := tb.brokers[0]
	each := func() (queues []string) {
		b.EachInterest(func(tenant uuid.UUID, queue string) {
			require.Equal(t, DefaultTenant, tenant)
			queues = append(queues, queue)
		})
		return queues
	}
	tb.push(b, "pushed", "p", 0, 1)
	require.Empty(t, each(), "a push needs no wakes")
	require.Zero(t, heard.times("pushed"))

	tb.pop(b, request("popped"))
	require.Equal(t, 1, heard.times("popped"))
	require.Equal(t, []string{"popped"}, each())
	tb.pop(b, request("popped"))
	require.Equal(t, 1, heard.times("popped"), "it was said before")

	pinned := request("missing")
	pinned.Pinned, pinned.Partition = true, "p"
	parked := tb.park(b, pinned)
	require.Eventually(t, func() bool { return heard.times("missing") == 1 }, 30*time.Second, time.Millisecond)
	require.Eventually(t, func() bool { return len(each()) == 2 }, 30*time.Second, time.Millisecond)
	tb.push(b, "missing", "p", 0, 1)
	require.NotNil(t, <-parked)

	require.Zero(t, heard.times("read"))
	tb.fetch(b, FetchRequest{
		Tenant: DefaultTenant, MaxWait: 50 * time.Millisecond, MinBytes: 1,
		Entries: []FetchEntry{{Queue: "read", Partition: "p", MaxBytes: 1000}},
	})
	require.NotZero(t, heard.times("read"))

	b.watch.forget()
	require.Empty(t, each())
}

// idleBroker does nothing by itself.
func idleBroker(t *testing.T) *Broker {
	ids, err := wireid.NewCodec([]byte("test"))
	require.NoError(t, err)
	b := &Broker{ids: ids, lanes: []*lane{{}}}
	b.watch, b.catalog = newWatch(b), newCatalog(b)
	return b
}

// addSet makes a ready set of a group that is registered, as old as given.
func (w *watch) addSet(age time.Duration) *readySet {
	w.mu.Lock()
	defer w.mu.Unlock()
	s := w.add(&queue{queueKey: queueKey{DefaultTenant, "q"}, id: 1}, QueueMode, pg.Group{ID: 1, Registered: true})
	s.made = time.Now().Add(-age)
	return s
}

func TestAnAnnouncedInterestIsLookedAfterAtOnce(t *testing.T) {
	t.Parallel()
	b := idleBroker(t)
	b.InterestAnnounced()
	require.Nil(t, b.watch.pending, "nobody waits")
	b.watch.addSet(time.Hour)
	b.InterestAnnounced()
	require.Nil(t, b.watch.pending, "nobody waits at an old set")
	b.watch.waiting = 1
	b.InterestAnnounced()
	require.NotNil(t, b.watch.pending)

	b = idleBroker(t)
	b.watch.addSet(0)
	b.InterestAnnounced()
	require.NotNil(t, b.watch.pending, "somebody is about to wait")
}

// What a reading that began before the announcement says of leases may be older than their release.
func TestLeasesReadBeforeAnAnnouncementAreDoubted(t *testing.T) {
	t.Parallel()
	for _, announced := range []bool{false, true} {
		b := idleBroker(t)
		s := b.watch.addSet(0)
		if announced {
			b.InterestAnnounced()
		}
		done, _ := b.watch.built(s, []pg.Readiness{{Partition: 1, Name: "p", Behind: true, LeaseRemaining: time.Hour}})
		require.True(t, done)
		state := leased
		if announced {
			state = suspect
		}
		require.Equal(t, state, s.entries[1].state)
	}
}

// A lease that another broker releases before it knows that somebody is interested here is not left to its recheck.
func TestAnAnnouncedInterestTriesLeasesAgain(t *testing.T) {
	t.Parallel()
	tb := newBundle(t, 2)
	a, b := tb.brokers[0], tb.brokers[1]
	tb.push(a, "q", "p", 0, 2)
	first := request("q")
	first.Batch = 1
	taken := tb.pop(a, first)
	parked := tb.park(b, request("q"))
	var entry *readyEntry
	state := func() entryState {
		b.watch.mu.Lock()
		defer b.watch.mu.Unlock()
		for _, s := range b.watch.sets {
			for _, e := range s.entries {
				entry = e
				return e.state
			}
		}
		return idle
	}
	require.Eventually(t, func() bool { return state() == leased }, 30*time.Second, time.Millisecond)
	b.watch.mu.Lock()
	entry.tried, entry.until = time.Now().Add(time.Hour), time.Now().Add(time.Hour) // no recheck would try it
	b.watch.mu.Unlock()
	tb.ackAll(a, "", taken)
	b.InterestAnnounced()
	require.NotNil(t, <-parked)
}
