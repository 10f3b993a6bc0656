package broker

import (
	"encoding/binary"
	"fmt"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/require"
	"go.uber.org/zap"

	"waggle/broker/wireid"
	"waggle/pg"
)

// crowd is a broker without database and goroutines that holds what many tenants' queues leave in its memory: the queue, one
// partition, one ready set.
type crowd struct {
	*Broker
	tenants int
	names   int
}

func nameOf(i int) string { return fmt.Sprintf("queue-%d", i) }

func tenantNumber(i int) (tenant uuid.UUID) {
	binary.BigEndian.PutUint64(tenant[8:], uint64(i)+1)
	return tenant
}

// newCrowd makes tenants that each hold the same names, plus "rare", which three tenants hold.
func newCrowd(t testing.TB, tenants, names int) *crowd {
	t.Helper()
	ids, err := wireid.NewCodec([]byte("test"))
	require.NoError(t, err)
	b := &Broker{ids: ids, log: zap.NewNop(), tidings: newTidings(), activities: newActivities(), unknown: make(chan struct{})}
	b.catalog = newCatalog(b)
	b.watch = newWatch(b)
	b.metrics = newMetrics(nil, b)
	b.lanes = []*lane{{}}
	b.config.AnswerBytes = 1
	c := &crowd{b, tenants, names}
	id := int64(0)
	for i := range tenants {
		for n := range names {
			id++
			c.hold(queueKey{tenantNumber(i), nameOf(n)}, id)
		}
	}
	for i := range 3 {
		id++
		c.hold(queueKey{tenantNumber(i), "rare"}, id)
	}
	return c
}

func (c *crowd) hold(key queueKey, id int64) {
	row := pg.Queue{ID: id, Tenant: key.tenant, Name: key.name, Options: []byte("{}"), Version: 1, WriteFormat: 1}
	q := c.catalog.store(row, c.catalog.generation(key))
	c.catalog.storePartition(pg.Partition{ID: id, Queue: id, Name: "p"})
	c.watch.mu.Lock()
	defer c.watch.mu.Unlock()
	c.watch.add(q, QueueMode, pg.Group{ID: id})
}

// touched counts the ready sets that hints have reached since the last call.
func (c *crowd) touched() (count int) {
	c.watch.mu.Lock()
	defer c.watch.mu.Unlock()
	for _, s := range c.watch.sets {
		count += len(s.entries)
		clear(s.entries)
		s.ready.Init()
	}
	return count
}

// forgotten counts the queues whose options will be read again at their next use, and remembers them anew.
func (c *crowd) forgotten() (count int) {
	c.watch.mu.Lock()
	held := values(c.watch.sets)
	c.watch.mu.Unlock()
	for _, s := range held {
		if c.catalog.cached(s.queue.queueKey) == nil {
			count++
			row := pg.Queue{ID: s.queue.id, Tenant: s.queue.tenant, Name: s.queue.name, Options: []byte("{}"), Version: 1, WriteFormat: 1}
			c.catalog.store(row, c.catalog.generation(s.queue.queueKey))
		}
	}
	return count
}

// A hint costs what it concerns, with 100,000 queues of 10,000 tenants in memory.
func TestAHintMeetsOnlyWhatItIsFor(t *testing.T) {
	t.Parallel()
	const tenants, names = 10_000, 10
	c := newCrowd(t, tenants, names)
	some := tenantNumber(4711)
	// Whoever meets this one follows it to a queue that has no set, and panics.
	trap := func(key queueKey) (remove func()) {
		c.watch.hintable.set(key, []int64{-1})
		return func() { c.watch.hintable.remove(key) }
	}
	for _, row := range []struct {
		what   string
		tenant *uuid.UUID
		name   string
		want   int
	}{
		{"a name that all tenants hold", nil, nameOf(3), tenants},
		{"a name that three tenants hold", nil, "rare", 3},
		{"a name that nobody holds", nil, "unheard of", 0},
		{"one tenant's queue of a name that all hold", &some, nameOf(3), 1},
		{"a tenant that does not hold the name", &some, "rare", 0},
	} {
		t.Run(row.what, func(t *testing.T) {
			defer trap(queueKey{tenantNumber(tenants), "another name"})()
			if row.tenant != nil {
				defer trap(queueKey{tenantNumber(tenants), row.name})()
			}
			wakes := testutil.ToFloat64(c.metrics.wakes.WithLabelValues("partition"))
			began := time.Now()
			c.HandleWake(row.tenant, row.name, "p")
			woken := time.Now()
			require.Equal(t, row.want, c.touched(), "ready sets")
			require.EqualValues(t, row.want, testutil.ToFloat64(c.metrics.wakes.WithLabelValues("partition"))-wakes)
			again := time.Now()
			c.HandleInvalidation(row.tenant, row.name)
			t.Logf("%d of %d queues: wake %v, invalidation %v", row.want, len(c.watch.sets), woken.Sub(began), time.Since(again))
			require.Equal(t, row.want, c.forgotten(), "cache entries")
			c.HandleCursorsMoved(row.tenant, row.name, "")
		})
	}
}

// Pops that wait for a queue to be made are found by its name, not by looking at all that wait.
func TestAHintEndsTheWaitForAQueueOfItsName(t *testing.T) {
	t.Parallel()
	const tenants = 1000
	c := newCrowd(t, 0, 0)
	waiting := map[queueKey]chan struct{}{}
	for i := range tenants {
		for _, name := range []string{"a", "b"} {
			key := queueKey{tenantNumber(i), name}
			waiting[key] = make(chan struct{})
			c.watch.missing.set(key, append(c.watch.missing.at(key), waiting[key]))
		}
	}
	ended := func() (count int) {
		for key, arrived := range waiting {
			select {
			case <-arrived:
				count++
				delete(waiting, key)
			default:
			}
		}
		return count
	}
	met := func(tenant *uuid.UUID, name string) (count int) {
		for range c.watch.missing.hinted(tenant, name) {
			count++
		}
		return count
	}
	first := tenantNumber(0)
	require.Equal(t, 1, met(&first, "a"))
	c.HandleWake(&first, "a", "p")
	require.Equal(t, 1, ended())
	require.Zero(t, met(&first, "a"))
	require.Equal(t, tenants-1, met(nil, "a"))
	c.HandleWake(nil, "a", "")
	require.Equal(t, tenants-1, ended())
	require.Equal(t, tenants, met(nil, "b"), "the other name's wait goes on")
	c.HandleWake(nil, "b", "")
	require.Equal(t, tenants, ended())
	require.True(t, c.watch.missing.isEmpty())
}

// A partition that nobody here has met is asked for once for all tenants, not once for each.
func TestAHintWithoutATenantAsksTheDatabaseOnce(t *testing.T) {
	t.Parallel()
	tb := newBundle(t, 2)
	a, b := tb.brokers[0], tb.brokers[1]
	const tenants = 2 * maxUnknown
	var keys []partitionKey
	for i := range tenants {
		tenant := tenantNumber(i)
		req := request("shared")
		req.Tenant = tenant
		require.Equal(t, Queued, a.Push(t.Context(), tenant, "", []PushItem{item("shared", "known", i)})[0].Status)
		require.Equal(t, numbers(i, i+1), payloads(tb.pop(b, req)))
		require.Equal(t, Queued, a.Push(t.Context(), tenant, "", []PushItem{item("shared", "new", i)})[0].Status)
		keys = append(keys, partitionKey{b.catalog.cached(queueKey{tenant, "shared"}).id, "new"})
	}
	for range maxUnknown - 1 {
		b.unknown <- struct{}{} // other questions of this kind are on their way
	}
	b.HandleWake(nil, "shared", "new")
	b.watch.mu.Lock() // no look finds them meanwhile
	defer b.watch.mu.Unlock()
	require.Eventually(t, func() bool {
		for _, key := range keys {
			if b.catalog.cachedPartition(key) == nil {
				return false
			}
		}
		return true
	}, 20*time.Second, time.Millisecond)
}

// BenchmarkFanOut is a hint without a tenant for a name that ten tenants hold, while the other queues grow in number.
func BenchmarkFanOut(b *testing.B) {
	for _, tenants := range []int{10, 1000, 10_000} {
		c := newCrowd(b, tenants, 9)
		for i := range tenants {
			// The tenth name is shared by ten tenants each.
			c.hold(queueKey{tenantNumber(i), fmt.Sprintf("shared-%d", i/10)}, int64(1_000_000+i))
		}
		for _, hint := range []struct {
			what string
			take func()
		}{
			{"wake", func() { c.HandleWake(nil, "shared-0", "p") }},
			{"invalidation", func() { c.HandleInvalidation(nil, "shared-0") }},
		} {
			b.Run(fmt.Sprintf("%s/queues %d", hint.what, 10*tenants), func(b *testing.B) {
				for b.Loop() {
					hint.take()
				}
				require.Equal(b, 10, c.touched()+c.forgotten())
			})
		}
	}
}
