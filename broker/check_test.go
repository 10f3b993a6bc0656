package broker

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"waggle/broker/segment"
)

// checked is what the lane says of the next push to the partition.
func (tb *testBundle) checked(b *Broker, queue, partition string) *windowCheck {
	tb.t.Helper()
	items := []PushItem{{Queue: queue, Partition: partition, TransactionID: "new", HasTransactionID: true, Payload: []byte("1")}}
	var groups []*pushGroup
	for _, named := range groupItems(items, make([]PushResult, 1), "") {
		groups = append(groups, b.resolveGroups(tb.t.Context(), DefaultTenant, []*namedGroup{named})...)
	}
	require.Len(tb.t, groups, 1)
	require.NoError(tb.t, b.checkWindows(tb.t.Context(), groups))
	return groups[0].check
}

// What bundles append is compared with from memory from then on: the cost of a bundle does not grow with what bundles
// before it have stored.
func TestLanesHearWhatBundlesHaveStored(t *testing.T) {
	t.Parallel()
	tb := newBundle(t, 2)
	a, b := tb.brokers[0], tb.brokers[1]
	require.Zero(t, tb.checked(a, "q", "p").known)
	transact := func(by *Broker, n int) {
		item := PushItem{Queue: "q", Partition: "p", TransactionID: fmt.Sprint(n), HasTransactionID: true, Payload: []byte("1")}
		_, err := by.Transact(t.Context(), Transaction{Tenant: DefaultTenant, Operations: []Operation{{Push: &item}}})
		require.NoError(t, err)
	}
	for n := range 5 {
		transact(a, n)
		require.Equal(t, int64(n+1), tb.checked(a, "q", "p").known)
	}
	// What another broker has stored is learned with the next append.
	transact(b, 5)
	tb.push(b, "q", "p", 6, 9)
	require.Equal(t, int64(5), tb.checked(a, "q", "p").known)
	transact(a, 9)
	require.Equal(t, int64(10), tb.checked(a, "q", "p").known)
}

func TestLanesHearOnlyWhatFollowsOnWhatTheyKnow(t *testing.T) {
	t.Parallel()
	tb := newBundle(t, 1)
	b := tb.brokers[0]
	check := tb.checked(b, "q", "p")
	p := b.catalog.cachedPartition(partitionKey{b.catalog.cached(queueKey{DefaultTenant, "q"}).id, "p"})
	one := make([]byte, segment.HashSize)
	one[0] = 1
	for name, n := range map[string]news{
		"of another history of the database": {p, check.epoch - 1, []remembered{{0, 1, one}}},
		"behind a gap":                       {p, check.epoch, []remembered{{7, 1, one}}},
	} {
		p.lane.tell(n)
		require.Zero(t, tb.checked(b, "q", "p").known, name)
	}
	p.lane.tell(news{p, check.epoch, []remembered{{0, 1, one}, {0, 1, one}, {1, 1, one}}})
	require.Equal(t, int64(2), tb.checked(b, "q", "p").known)
}
