package broker

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// What is remembered of a log is no answer when the queue was deleted or configured on a broker that nobody heard of.
func TestADuplicateIsNotAnsweredFromMemoryAlone(t *testing.T) {
	t.Parallel()
	tb := newBundle(t, 2)
	here, elsewhere := tb.brokers[0], tb.brokers[1]
	push := func(numbers ...int) (statuses []PushStatus) {
		var items []PushItem
		for _, n := range numbers {
			items = append(items, item("q", "p", n))
		}
		for _, r := range here.Push(t.Context(), DefaultTenant, "", items) {
			statuses = append(statuses, r.Status)
		}
		return statuses
	}
	require.Equal(t, []PushStatus{Queued}, push(1))
	require.Equal(t, []PushStatus{Duplicate}, push(1))

	_, err := elsewhere.DeleteQueue(t.Context(), DefaultTenant, "q")
	require.NoError(t, err)
	require.Equal(t, []PushStatus{Queued}, push(1), "what it would be a duplicate of is gone")
	require.Equal(t, []PushStatus{Duplicate, Queued}, push(1, 2))

	_, err = elsewhere.DeleteQueue(t.Context(), DefaultTenant, "q")
	require.NoError(t, err)
	require.Equal(t, []PushStatus{Queued, Queued, Queued}, push(1, 3, 2), "also beside one that is new")

	_, err = elsewhere.Configure(t.Context(), ConfigureRequest{
		Tenant: DefaultTenant, Queue: "q", Options: map[string]any{"dedupWindowSeconds": 0},
	})
	require.NoError(t, err)
	require.Equal(t, []PushStatus{Queued}, push(1))
}
