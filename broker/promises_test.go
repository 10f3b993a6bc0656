package broker

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestItemsOfOnePartitionAreStoredTogetherOrNotAtAll(t *testing.T) {
	t.Parallel()
	tb := newBundle(t, 1)
	b := tb.brokers[0]
	request3000 := func(queue string) []PushItem {
		var items []PushItem
		for i := range 3000 {
			items = append(items, item(queue, "long", i))
			if i%100 == 0 {
				items = append(items, item(queue, "short", i))
			}
		}
		return items
	}
	count := func(results []PushResult, items []PushItem, partition string, status PushStatus) (n int) {
		for i := range results {
			if items[i].Partition == partition && results[i].Status == status {
				n++
			}
		}
		return n
	}
	items := request3000("whole")
	require.Equal(t, 3000, count(b.Push(t.Context(), DefaultTenant, "", items), items, "long", Queued))
	var got []string
	for len(got) < 3000 {
		req := request("whole")
		req.Batch, req.Pinned, req.Partition = 700, true, "long"
		answer := tb.pop(b, req)
		got = append(got, payloads(answer)...)
		tb.ackAll(b, "", answer)
	}
	require.Equal(t, numbers(0, 3000), got, "next to each other and in order, over several segments")

	// The first segment of the long group would pass, the second does not.
	_, err := tb.connect().Exec(t.Context(), "alter table waggle.segment add constraint test check (base_offset < 1000) not valid")
	require.NoError(t, err)
	items = request3000("broken")
	results := b.Push(t.Context(), DefaultTenant, "", items)
	require.Equal(t, 3000, count(results, items, "long", Failed))
	require.Equal(t, 30, count(results, items, "short", Queued), "another partition is independent")
	req := request("broken")
	req.Pinned, req.Partition = true, "long"
	require.Nil(t, tb.pop(b, req), "nothing of a group that failed is there")
}

func TestAnExpiredLeaseChargesNothing(t *testing.T) {
	t.Parallel()
	tb := newBundle(t, 1)
	b := tb.brokers[0]
	_, err := b.Configure(t.Context(), ConfigureRequest{Tenant: DefaultTenant, Queue: "q", Options: map[string]any{"retryLimit": 1}})
	require.NoError(t, err)
	tb.push(b, "q", "p", 0, 1)
	req := request("q")
	req.LeaseSeconds, req.Wait = 1, true
	for attempt := range 3 {
		require.Equal(t, attempt+1, tb.pop(b, req).Parts[0].Attempt, "the lease before has expired")
	}
	req.LeaseSeconds = 60
	for failure, dead := range []bool{false, true} {
		answer := tb.pop(b, req)
		r := b.Ack(t.Context(), DefaultTenant, QueueMode, acksOf(answer, AckFailed))
		require.Equal(t, AckResult{Success: true, LeaseReleased: true, DLQ: dead}, r[0], fmt.Sprint("failure ", failure))
	}
}
