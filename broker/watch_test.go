package broker

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"waggle/pg"
)

// A lease that ends while a flush decides is not mistaken for one that still holds when the flush's older answer comes.
func TestWhatHappensDuringAClaimIsNotForgotten(t *testing.T) {
	t.Parallel()
	tb := newBundle(t, 1)
	b := tb.brokers[0]
	w := b.watch
	q := &queue{id: 1000, options: defaultOptions}
	p := &partition{id: 1000, queue: 1000, name: "p", lane: b.lanes[0]}
	begin := func() (*readySet, *readyEntry, *claimJob) {
		w.mu.Lock()
		defer w.mu.Unlock()
		s := w.add(q, "g", pg.Group{ID: 1000})
		e := s.entry(p)
		e.mark(5)
		c := newPopCall(PopRequest{Batch: 1}, time.Now())
		return s, e, w.job(s, c, []*readyEntry{e})
	}
	state := func(e *readyEntry) entryState {
		w.mu.Lock()
		defer w.mu.Unlock()
		return e.state
	}
	for name, c := range map[string]struct {
		meanwhile func()
		answer    pg.Claiming
		want      entryState
	}{
		"leased":                          {func() {}, pg.Claiming{Outcome: pg.Leased, Remaining: time.Minute, Newest: 5}, leased},
		"leased, but released since":      {func() { w.released(q, p, 1000, 3, false) }, pg.Claiming{Outcome: pg.Leased, Remaining: time.Minute, Newest: 5}, suspect},
		"leased, but a hint came":         {func() { w.touched(p) }, pg.Claiming{Outcome: pg.Leased, Remaining: time.Minute, Newest: 5}, suspect},
		"empty":                           {func() {}, pg.Claiming{Outcome: pg.Empty, Newest: 5}, idle},
		"empty, but written since":        {func() { w.written(q, p, 6) }, pg.Claiming{Outcome: pg.Empty, Newest: 5}, ready},
		"empty, but a hint came":          {func() { w.touched(p) }, pg.Claiming{Outcome: pg.Empty, Newest: 5}, ready},
		"not visible yet":                 {func() {}, pg.Claiming{Outcome: pg.NotVisible, Remaining: time.Minute, Newest: 5}, delayed},
		"locked by a neighbour":           {func() {}, pg.Claiming{Outcome: pg.Locked, Newest: -1}, ready},
		"beyond what the pop could take":  {func() {}, pg.Claiming{Outcome: pg.Beyond, Newest: 5}, ready},
		"given, and nothing more to give": {func() {}, pg.Claiming{Outcome: pg.Claimed, First: 0, Last: 5, Newest: 5}, leased},
	} {
		s, e, j := begin()
		c.meanwhile()
		w.claimAnswered(j, []pg.Claiming{c.answer})
		require.Equal(t, c.want, state(e), name)
		w.mu.Lock()
		w.remove(s, errGone)
		w.mu.Unlock()
	}
}
