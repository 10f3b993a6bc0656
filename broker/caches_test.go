package broker

import (
	"fmt"
	"math"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"waggle/broker/segment"
)

func built(records int) *segment.Builder {
	b := &segment.Builder{}
	for i := range records {
		b.AppendEncoded(segment.AppendRecord(nil, &segment.Record{Payload: fmt.Append(nil, i)}), segment.Hash{1, byte(i)})
	}
	return b
}

func TestTailCache(t *testing.T) {
	t.Parallel()
	stamp := time.UnixMicro(1)
	add := func(c *tailCache, base int64, records int) {
		b := built(records)
		c.add(7, base, stamp, b.Segment(), b.IDs())
	}

	t.Run("a segment is found by place and time only", func(t *testing.T) {
		t.Parallel()
		c := newTailCache(1 << 20)
		add(c, 10, 5)
		_, found := c.get(7, 10, stamp)
		require.True(t, found)
		_, found = c.get(7, 10, stamp.Add(time.Microsecond))
		require.False(t, found, "another history filled that place")
		_, found = c.get(8, 10, stamp)
		require.False(t, found)
		add(c, 10, 3)
		got, _ := c.get(7, 10, stamp)
		require.Equal(t, 3, got.segment.Len(), "the last one counts")
	})
	t.Run("a run ends at a gap and where the claim ends", func(t *testing.T) {
		t.Parallel()
		c := newTailCache(1 << 20)
		add(c, 0, 5)
		add(c, 5, 5)
		add(c, 20, 5)
		add(c, 25, 5)
		for _, r := range []struct {
			next    int64
			records int
			from    int64
			to      int64
		}{
			{0, 100, 0, 10},
			{3, 1, 0, 5},
			{3, 3, 0, 10},
			{12, 100, math.MaxInt64, math.MaxInt64},
			{20, 100, 20, 30},
			{30, 100, math.MaxInt64, math.MaxInt64},
			{-1, 1, 20, 30},
		} {
			from, to := c.run(7, r.next, r.records)
			require.Equal(t, []int64{r.from, r.to}, []int64{from, to}, "%+v", r)
		}
	})
	t.Run("the least used goes when there is no room", func(t *testing.T) {
		t.Parallel()
		one := (&tailSegment{segment: built(5).Segment(), ids: built(5).IDs()}).cost()
		c := newTailCache(10 * one)
		for i := range 10 {
			add(c, int64(5*i), 5)
		}
		c.get(7, 0, stamp)
		add(c, 50, 5)
		_, found := c.get(7, 0, stamp)
		require.True(t, found)
		_, found = c.get(7, 5, stamp)
		require.False(t, found)
		bytes, segments, _, _ := c.stats()
		require.Equal(t, []int{10 * one, 10}, []int{bytes, segments})
		c.forget()
		bytes, segments, _, _ = c.stats()
		require.Equal(t, []int{0, 0}, []int{bytes, segments})
	})
}

func TestTenantsTakeTurns(t *testing.T) {
	t.Parallel()
	var q tenantQueues
	a, b := uuid.UUID{1}, uuid.UUID{2}
	group := func(tenant uuid.UUID, n int) *pushGroup {
		return &pushGroup{queue: &queue{queueKey: queueKey{tenant, ""}}, bytes: n}
	}
	for i := range 100 {
		q.add(group(a, i))
	}
	q.add(group(b, 1000))
	q.add(group(b, 1001))
	q.addFront([]*pushGroup{group(a, -2), group(a, -1)})
	var got []int
	for g := q.next(); g != nil; g = q.next() {
		got = append(got, g.bytes)
	}
	require.Equal(t, []int{-2, 1000, -1, 1001, 0, 1}, got[:6], "the other tenant does not wait behind a hundred")
	require.Len(t, got, 104)
	require.Empty(t, q.byTenant)
}

// Whatever comes and goes: each tenant's groups keep their order, none is lost, and what has left takes no memory.
func TestTenantQueuesKeepOrder(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		var q tenantQueues
		model := map[uuid.UUID][]*pushGroup{}
		taken := []*pushGroup{}
		for range rapid.IntRange(1, 400).Draw(t, "steps") {
			tenant := uuid.UUID{byte(rapid.IntRange(1, 3).Draw(t, "tenant"))}
			switch rapid.IntRange(0, 4).Draw(t, "step") {
			case 0, 1:
				g := &pushGroup{queue: &queue{queueKey: queueKey{tenant, ""}}}
				q.add(g)
				model[tenant] = append(model[tenant], g)
			case 2, 3:
				g := q.next()
				if g == nil {
					for _, left := range model {
						require.Empty(t, left)
					}
					continue
				}
				of := g.queue.tenant
				require.Same(t, model[of][0], g)
				model[of] = model[of][1:]
				taken = append(taken, g)
			default:
				n := min(len(taken), rapid.IntRange(0, 5).Draw(t, "back"))
				back := taken[len(taken)-n:]
				taken = taken[:len(taken)-n]
				q.addFront(back)
				for i := len(back) - 1; i >= 0; i-- {
					of := back[i].queue.tenant
					model[of] = append([]*pushGroup{back[i]}, model[of]...)
				}
			}
		}
		for _, queue := range q.byTenant {
			require.LessOrEqual(t, cap(queue.groups), 2000)
		}
	})
}

func TestLeaseMemory(t *testing.T) {
	t.Parallel()
	id := uuid.New()
	p := &partition{id: 3}
	m := newLeaseMemory(10_000)
	m.add(id, []heldPart{{partition: p, groupName: "g", cursor: 1, low: -1}, {partition: &partition{id: 4}, groupName: "g", cursor: 2}})
	held, ok := m.find(id, 3, "g")
	require.True(t, ok)
	require.Equal(t, int64(-1), held.low)
	m.advance(id, 1, 5)
	held, _ = m.find(id, 3, "g")
	require.Equal(t, int64(5), held.low)
	_, ok = m.find(id, 3, "other")
	require.False(t, ok)
	m.end(id, 1)
	_, ok = m.find(id, 3, "g")
	require.False(t, ok)
	_, ok = m.find(id, 4, "g")
	require.True(t, ok)
	m.end(id, 2)
	bytes, leases := m.stats()
	require.Equal(t, []int{0, 0}, []int{bytes, leases})
	for range 1000 {
		m.add(uuid.New(), []heldPart{{partition: p, ids: make([]byte, 100)}})
	}
	bytes, leases = m.stats()
	require.LessOrEqual(t, bytes, 10_000)
	require.Positive(t, leases)
}

func TestRoomForAnswers(t *testing.T) {
	t.Parallel()
	r := newRoom(100)
	leave, ok := r.enter(t.Context(), 1000)
	require.True(t, ok, "what is larger than the room passes alone")
	entered := make(chan bool)
	go func() {
		other, ok := r.enter(t.Context(), 1)
		if ok {
			other()
		}
		entered <- ok
	}()
	select {
	case <-entered:
		t.Fatal("the room is full")
	case <-time.After(20 * time.Millisecond):
	}
	leave()
	require.True(t, <-entered)
}
