package broker

import (
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

func TestAckRules(t *testing.T) {
	t.Parallel()
	leased := func(committed, end int64, retry int) cursorState {
		return cursorState{committed: committed, batchEnd: end, live: true, retry: retry}
	}
	done := func(offset int64) resolved { return resolved{offset: offset, status: AckCompleted} }
	nack := func(offset int64, status AckStatus, err string) resolved {
		return resolved{offset: offset, status: status, err: err}
	}
	ok := AckResult{Success: true}
	okReleased := AckResult{Success: true, LeaseReleased: true}
	okBuried := AckResult{Success: true, LeaseReleased: true, DLQ: true}
	for name, c := range map[string]struct {
		state   cursorState
		items   []resolved
		limit   int
		drop    bool
		want    decision
		results []AckResult
	}{
		"one of three completes those below it and keeps the lease": {
			leased(-1, 4, 2),
			[]resolved{done(2)},
			3, false,
			decision{committed: 2, retry: 2, bury: -1},
			[]AckResult{ok},
		},
		"the last one releases and forgives": {
			leased(1, 4, 2),
			[]resolved{done(4)},
			3, false,
			decision{committed: 4, release: true, retry: 0, bury: -1},
			[]AckResult{okReleased},
		},
		"order within the set does not matter": {
			leased(-1, 4, 0),
			[]resolved{done(4), done(0), done(2)},
			3, false,
			decision{committed: 4, release: true, bury: -1},
			[]AckResult{okReleased, okReleased, okReleased},
		},
		"a nack clamps what is completed above it": {
			leased(-1, 9, 0),
			[]resolved{done(5), nack(3, AckFailed, "x"), done(1)},
			3, false,
			decision{committed: 1, release: true, retry: 1, bury: -1, signalled: true},
			[]AckResult{okReleased, okReleased, okReleased},
		},
		"the lowest signal counts": {
			leased(-1, 9, 0),
			[]resolved{nack(7, AckDLQ, "x"), nack(3, AckRetry, ""), done(2)},
			3, false,
			decision{committed: 2, release: true, retry: 0, bury: -1, signalled: true},
			[]AckResult{okReleased, okReleased, okReleased},
		},
		"at one offset dlq comes before failed before retry": {
			leased(-1, 9, 0),
			[]resolved{nack(3, AckRetry, "r"), nack(3, AckDLQ, "d"), nack(3, AckFailed, "f")},
			3, false,
			decision{committed: 3, release: true, retry: 0, bury: 3, cause: "r", signalled: true},
			[]AckResult{okBuried, okBuried, okBuried},
		},
		"failed within the budget is redelivered": {
			leased(2, 9, 2),
			[]resolved{nack(5, AckFailed, "x")},
			3, false,
			decision{committed: 2, release: true, retry: 3, bury: -1, signalled: true},
			[]AckResult{okReleased},
		},
		"failed beyond the budget is dead-lettered and what lies below is consumed": {
			leased(2, 9, 3),
			[]resolved{nack(5, AckFailed, "x")},
			3, false,
			decision{committed: 5, release: true, retry: 0, bury: 5, cause: "x", signalled: true},
			[]AckResult{okBuried},
		},
		"a limit of zero dead-letters at the first failure": {
			leased(-1, 9, 0),
			[]resolved{nack(0, AckFailed, "")},
			0, false,
			decision{committed: 0, release: true, bury: 0, cause: exhausted, signalled: true},
			[]AckResult{okBuried},
		},
		"without a dead-letter queue it is dropped": {
			leased(-1, 9, 0),
			[]resolved{nack(0, AckFailed, "x")},
			0, true,
			decision{committed: 0, release: true, bury: -1, cause: "x", signalled: true},
			[]AckResult{okReleased},
		},
		"dlq needs no budget and no option": {
			leased(-1, 9, 0),
			[]resolved{nack(4, AckDLQ, "x")},
			3, true,
			decision{committed: 4, release: true, bury: 4, cause: "x", signalled: true},
			[]AckResult{okBuried},
		},
		"retry costs nothing": {
			leased(-1, 9, 2),
			[]resolved{done(1), nack(4, AckRetry, "x")},
			3, false,
			decision{committed: 1, release: true, retry: 2, bury: -1, signalled: true},
			[]AckResult{okReleased, okReleased},
		},
		"the cause is that of the poison, else the first nack's": {
			leased(-1, 9, 0),
			[]resolved{nack(6, AckFailed, "first"), nack(2, AckDLQ, "")},
			3, false,
			decision{committed: 2, release: true, bury: 2, cause: "first", signalled: true},
			[]AckResult{okBuried, okBuried},
		},
		"below the cursor completed is nothing new and a nack is refused": {
			leased(5, 9, 1),
			[]resolved{done(5), nack(3, AckFailed, "x"), done(6)},
			3, false,
			decision{committed: 6, retry: 1, bury: -1},
			[]AckResult{{Success: true, Noop: true}, {Error: errBelow}, ok},
		},
		"what is not found is unresolvable and changes nothing": {
			leased(5, 9, 1),
			[]resolved{{offset: -1}, {offset: -1, status: AckDLQ}},
			3, false,
			decision{committed: 5, retry: 1, bury: -1},
			[]AckResult{{Error: errUnresolvable}, {Error: errUnresolvable}},
		},
		"without a live lease completed commits": {
			cursorState{committed: 2, batchEnd: 9, retry: 1},
			[]resolved{done(12)},
			3, false,
			decision{committed: 12, retry: 1, bury: -1},
			[]AckResult{ok},
		},
		"without a live lease a signal has no effect but is accepted": {
			cursorState{committed: 2, batchEnd: 9, retry: 1},
			[]resolved{nack(4, AckDLQ, "x"), done(3)},
			3, false,
			decision{committed: 3, retry: 1, bury: -1},
			[]AckResult{ok, ok},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := decideAck(c.state, c.items, c.limit, !c.drop)
			require.Equal(t, c.results, d.results)
			d.results = nil
			require.Equal(t, c.want, d)
		})
	}
}

// What holds whatever is acked.
func TestAckRulesHoldForAnySet(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		c := cursorState{
			committed: rapid.Int64Range(-1, 20).Draw(t, "committed"), live: rapid.Bool().Draw(t, "live"),
			retry: rapid.IntRange(0, 4).Draw(t, "retry"),
		}
		c.batchEnd = c.committed + rapid.Int64Range(1, 20).Draw(t, "leased")
		limit, keep := rapid.IntRange(0, 4).Draw(t, "limit"), rapid.Bool().Draw(t, "dead letters")
		items := rapid.SliceOfN(rapid.Custom(func(t *rapid.T) resolved {
			r := resolved{status: AckStatus(rapid.IntRange(0, 3).Draw(t, "status"))}
			// As the look-up finds them: within the lease, at or below the cursor, or nowhere.
			r.offset = rapid.Int64Range(-1, c.batchEnd).Draw(t, "offset")
			return r
		}), 1, 12).Draw(t, "items")
		d := decideAck(c, items, limit, keep)

		require.GreaterOrEqual(t, d.committed, c.committed, "a cursor never goes back")
		require.LessOrEqual(t, d.committed, max(c.batchEnd, c.committed))
		signal := int64(-1)
		for i, item := range items {
			if item.offset > c.committed {
				require.True(t, d.results[i].Success)
				if item.status != AckCompleted && (signal < 0 || item.offset < signal) {
					signal = item.offset
				}
			}
			require.Equal(t, d.results[i].Success, d.results[i].Error == "")
			require.False(t, d.results[i].Noop && !d.results[i].Success)
		}
		if signal >= 0 {
			require.LessOrEqual(t, d.committed, signal, "nothing above a signal is consumed")
			require.Equal(t, c.live, d.release, "a signal ends a live lease")
		}
		if d.bury >= 0 {
			require.Equal(t, signal, d.bury)
			require.Equal(t, signal, d.committed)
		}
		if !c.live {
			require.False(t, d.release)
			require.Equal(t, c.retry, d.retry)
		}
		if signal < 0 && c.live {
			require.Equal(t, d.committed == c.batchEnd, d.release)
		}
		// The order of the items means nothing.
		reversed := make([]resolved, len(items))
		for i, item := range items {
			reversed[len(items)-1-i] = item
		}
		other := decideAck(c, reversed, limit, keep)
		require.Equal(t, []any{d.committed, d.release, d.retry, d.bury}, []any{other.committed, other.release, other.retry, other.bury})
	})
}
