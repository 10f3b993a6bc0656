package node_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"waggle/client"
)

// The judge of the runs under failure has to see each kind of broken promise, or a run that passes means nothing.
func TestTheLedgerSeesBrokenPromises(t *testing.T) {
	t.Parallel()
	const lease = 50 * time.Millisecond
	deliver := func(l *ledger, attempt int, asked time.Time, transactions ...string) *client.PopAnswer {
		got := &client.PopAnswer{}
		for _, transaction := range transactions {
			got.Messages = append(got.Messages, client.Message{
				ID: "id-" + transaction, TransactionID: transaction, DeliveryAttempt: attempt,
			})
		}
		l.delivered(asked, got)
		return got
	}
	ack := func(l *ledger, got *client.PopAnswer) {
		results := make([]client.AckResult, len(got.Messages))
		for i := range results {
			results[i].Success = true
		}
		l.acked(got, results, nil)
	}
	for name, row := range map[string]struct {
		run    func(l *ledger)
		broken string
	}{
		"nothing broken": {run: func(l *ledger) {
			ack(l, deliver(l, 1, time.Now(), "p-0", "p-1"))
		}},
		"an unacknowledged message comes again after its lease": {run: func(l *ledger) {
			deliver(l, 1, time.Now().Add(-2*lease), "p-0", "p-1")
			ack(l, deliver(l, 2, time.Now(), "p-0", "p-1"))
		}},
		"a lost message":               {func(l *ledger) { ack(l, deliver(l, 1, time.Now(), "p-0")) }, "p-1: lost"},
		"first deliveries in disorder": {func(l *ledger) { ack(l, deliver(l, 1, time.Now(), "p-1", "p-0")) }, "to be delivered first"},
		"again after its ack": {func(l *ledger) {
			ack(l, deliver(l, 1, time.Now().Add(-2*lease), "p-0", "p-1"))
			time.Sleep(time.Millisecond) // the ack lies before the next pop
			deliver(l, 2, time.Now(), "p-1")
		}, "p-1: delivered again to a pop that began"},
		"again within its lease": {func(l *ledger) {
			deliver(l, 1, time.Now(), "p-0", "p-1")
			ack(l, deliver(l, 2, time.Now(), "p-0", "p-1"))
		}, "within its lease"},
		"again without being counted": {func(l *ledger) {
			deliver(l, 1, time.Now().Add(-2*lease), "p-0", "p-1")
			ack(l, deliver(l, 1, time.Now(), "p-0", "p-1"))
		}, "delivery attempt 1 came after attempt 1"},
		"stored twice": {func(l *ledger) {
			ack(l, deliver(l, 1, time.Now(), "p-0", "p-1"))
			l.pushed("p", 1, "another id")
		}, "p-1: delivered as id-p-1, stored as another id"},
		"never pushed": {func(l *ledger) { ack(l, deliver(l, 1, time.Now(), "p-0", "p-1", "q-0")) }, "q-0: delivered, and no push"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := newLedger(lease)
			l.pushed("p", 0, "id-p-0")
			l.pushed("p", 1, "id-p-1")
			row.run(l)
			broken := l.check(true)
			if row.broken == "" {
				require.Empty(t, broken)
				return
			}
			require.NotEmpty(t, broken)
			require.Contains(t, broken[0], row.broken)
		})
	}
}
