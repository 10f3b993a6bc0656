package broker

import (
	"errors"
	"flag"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// model is what section 4.5 of the contract says of one group of one partition that holds messages 0 to n-1, in the
// simplest words: nothing is cached, there is one broker, and nobody else.
type model struct {
	committed, end, retry int // end is the last message under the lease
	lease                 string
	live                  bool
	dead                  []int
}

// modelAck is an ack of message n; an n that was never pushed stands for an unknown id.
type modelAck struct {
	n      int
	status AckStatus
}

func (m *model) pop(lease string, batch, n int) (from, to int) {
	if from, to = m.committed+1, min(m.committed+batch, n-1); m.live || from > to {
		return 0, -1
	}
	m.live, m.lease, m.end = true, lease, to
	return from, to
}

func (m *model) ack(acks []modelAck, lease string, n, retryLimit int, keep bool) []AckResult {
	results := make([]AckResult, len(acks))
	high := n - 1
	if m.live {
		high = m.end
	}
	signal, status, done := -1, AckCompleted, m.committed
	for i, a := range acks {
		switch {
		case lease != "" && (!m.live || lease != m.lease):
			results[i].Error = errLease
		case a.n >= n || a.n > high:
			results[i].Error = errUnresolvable
		case a.n <= m.committed && a.status == AckCompleted:
			results[i].Success, results[i].Noop = true, true
		case a.n <= m.committed:
			results[i].Error = errBelow
		case a.status == AckCompleted:
			results[i].Success = true
		default:
			results[i].Success = true
			if signal < 0 || a.n < signal || a.n == signal && slices.Index([]AckStatus{AckRetry, AckFailed, AckDLQ}, a.status) > slices.Index([]AckStatus{AckRetry, AckFailed, AckDLQ}, status) {
				signal, status = a.n, a.status
			}
		}
	}
	if lease != "" && (!m.live || lease != m.lease) {
		return results
	}
	for i, a := range acks {
		if results[i].Success && a.status == AckCompleted && (signal < 0 || a.n < signal) {
			done = max(done, a.n)
		}
	}
	m.committed = done
	released, buried := false, false
	switch {
	case signal >= 0 && m.live:
		released = true
		switch {
		case status == AckFailed && m.retry < retryLimit:
			m.retry++
		case status != AckRetry:
			m.committed, m.retry = signal, 0
			if buried = status == AckDLQ || keep; buried {
				m.dead = append(m.dead, signal)
			}
		}
	case signal < 0 && m.live && m.committed >= m.end:
		released, m.retry = true, 0
	}
	m.live = m.live && !released
	for i := range results {
		if results[i].Success {
			results[i].LeaseReleased, results[i].DLQ = released, buried
		}
	}
	return results
}

// modelled is a partition on real brokers beside the models of its groups.
type modelled struct {
	tb         *testBundle
	queue      string
	partition  string // its id, once something was popped
	n          int
	retryLimit int
	keep       bool
	groups     map[string]*model
	leases     []string
}

var modelGroups = []string{QueueMode, "g"}

func newModelled(tb *testBundle, queue string, retryLimit int, keep bool) *modelled {
	tb.configure(tb.brokers[0], queue, map[string]any{"retryLimit": retryLimit, "deadLetterQueue": keep, "dlqAfterMaxRetries": keep})
	m := &modelled{tb: tb, queue: queue, retryLimit: retryLimit, keep: keep, groups: map[string]*model{}, leases: []string{""}}
	for _, group := range modelGroups {
		m.groups[group] = &model{committed: -1}
	}
	return m
}

func (m *modelled) push(b *Broker, count int) {
	m.tb.push(b, m.queue, "p", m.n, m.n+count)
	m.n += count
}

func (m *modelled) request(group string) PopRequest {
	req := request(m.queue)
	req.Group, req.SubscriptionMode = group, "all"
	return req
}

// pop compares what a broker gives with what the model does.
func (m *modelled) pop(t require.TestingT, b *Broker, group string, batch, seconds int) {
	req := m.request(group)
	req.Batch, req.LeaseSeconds = batch, seconds
	answer := m.tb.pop(b, req)
	lease := ""
	if answer != nil {
		require.Len(t, answer.Parts, 1)
		lease, m.partition = answer.Lease.String(), answer.Parts[0].PartitionID.String()
		m.leases = append(m.leases, lease)
	}
	from, to := m.groups[group].pop(lease, batch, m.n)
	var want, got []string
	for n := from; n <= to; n++ {
		want = append(want, fmt.Sprintf(`{"n":%d}`, n))
	}
	if answer != nil {
		got = payloads(answer)
	}
	require.Equal(t, want, got, "popped by %s", group)
}

func (m *modelled) items(acks []modelAck, lease string) []AckItem {
	items := make([]AckItem, len(acks))
	for i, a := range acks {
		items[i] = AckItem{TransactionID: fmt.Sprintf("txn-%d", a.n), PartitionID: m.partition, Status: a.status, Lease: lease}
	}
	return items
}

// same compares the group's cursor and dead letters with the model.
func (m *modelled) same(t require.TestingT, b *Broker, group string) {
	want := m.groups[group]
	require.Equal(t, int64(want.committed), m.tb.committed(b, m.queue, "p", group), "committed by %s", group)
}

// drawAcks are acks of messages around the lease, repeated ones, and ids that were never pushed.
func (m *modelled) drawAcks(t *rapid.T, of *model) []modelAck {
	return rapid.SliceOfN(rapid.Custom(func(t *rapid.T) modelAck {
		return modelAck{
			n:      rapid.IntRange(max(of.committed-1, 0), of.committed+6).Draw(t, "message"),
			status: rapid.SampledFrom([]AckStatus{AckCompleted, AckCompleted, AckCompleted, AckFailed, AckRetry, AckDLQ}).Draw(t, "status"),
		}
	}), 1, 5).Draw(t, "acks")
}

// drawLease is the live lease, none, or any other that was ever given.
func (m *modelled) drawLease(t *rapid.T, of *model) string {
	switch rapid.IntRange(0, 9).Draw(t, "lease") {
	case 0:
		return ""
	case 1:
		return rapid.SampledFrom(m.leases).Draw(t, "old lease")
	}
	if of.live {
		return of.lease
	}
	return ""
}

// histories is how many each goroutine of checkModels tries; many more take minutes: -model.histories=1000.
var histories = flag.Int("model.histories", 12, "histories that tests against a model try, times four")

// checkModels runs the histories of some testing goroutines at once: they mostly wait for the database.
func checkModels(t *testing.T, run func(t *rapid.T, tb *testBundle, queue string)) {
	for k := range 4 {
		t.Run(fmt.Sprint(k), func(t *testing.T) {
			t.Parallel()
			tb := newBundle(t, 2, quiet)
			n, shrinking := 0, false
			rapid.Check(t, func(r *rapid.T) {
				if n++; n > *histories && !shrinking {
					return
				}
				passed := false
				defer func() { shrinking = shrinking || !passed }()
				run(r, tb, fmt.Sprintf("q%d", n))
				passed = true
			})
		})
	}
}

// Random histories of pushes, pops, acks in any order, nacks, expiries and redeliveries of two groups, each step by either
// of two brokers, agree with the model in every answer and every cursor.
func TestAcksOfTwoBrokersAgreeWithTheModel(t *testing.T) {
	t.Parallel()
	checkModels(t, func(t *rapid.T, tb *testBundle, queue string) {
		m := newModelled(tb, queue, rapid.IntRange(0, 2).Draw(t, "retry limit"), rapid.Bool().Draw(t, "dead letters"))
		broker := func() *Broker { return tb.brokers[rapid.IntRange(0, 1).Draw(t, "broker")] }
		m.push(broker(), rapid.IntRange(1, 8).Draw(t, "count"))
		for _, group := range modelGroups {
			m.pop(t, broker(), group, rapid.IntRange(1, 4).Draw(t, "batch"), 60)
		}
		expiries := 0
		for range rapid.IntRange(1, 25).Draw(t, "steps") {
			group := rapid.SampledFrom(modelGroups).Draw(t, "group")
			state, b := m.groups[group], broker()
			switch step := rapid.IntRange(0, 12).Draw(t, "step"); {
			case step < 2:
				m.push(b, rapid.IntRange(1, 5).Draw(t, "count"))
			case step < 5:
				m.pop(t, b, group, rapid.IntRange(1, 5).Draw(t, "batch"), 60)
			case step < 12:
				acks, lease := m.drawAcks(t, state), m.drawLease(t, state)
				if step > 7 { // as most consumers do
					acks = []modelAck{{n: max(state.end, 0), status: rapid.SampledFrom([]AckStatus{AckCompleted, AckFailed}).Draw(t, "all")}}
				}
				got := b.Ack(tb.t.Context(), DefaultTenant, group, m.items(acks, lease))
				require.Equal(t, state.ack(acks, lease, m.n, m.retryLimit, m.keep), got, "%s acks %v under %q", group, acks, lease)
			case !state.live && expiries == 0: // rare, because it takes its time
				expiries++
				m.pop(t, b, group, 5, 1)
				time.Sleep(1100 * time.Millisecond)
				state.live = false
			}
			m.same(t, broker(), group)
		}
		var want []int
		for _, group := range modelGroups {
			want = append(want, m.groups[group].dead...)
		}
		require.Len(t, want, tb.number(`select count(*) from waggle.dead_letter d join waggle.queue q on q.id = d.queue_id where q.name = $1`, queue))
	})
}

// Transactions of pushes and acks over several partitions and groups, each by either of two brokers, do all or nothing, as
// the model says, and both brokers see the same of it.
func TestTransactionsOfTwoBrokersAgreeWithTheModel(t *testing.T) {
	t.Parallel()
	checkModels(t, func(t *rapid.T, tb *testBundle, queue string) {
		retryLimit, keep := rapid.IntRange(0, 1).Draw(t, "retry limit"), rapid.Bool().Draw(t, "dead letters")
		parts := []*modelled{newModelled(tb, queue+"-a", retryLimit, keep), newModelled(tb, queue+"-b", retryLimit, keep)}
		broker := func() *Broker { return tb.brokers[rapid.IntRange(0, 1).Draw(t, "broker")] }
		for _, m := range parts {
			m.push(broker(), rapid.IntRange(1, 6).Draw(t, "count"))
			for _, group := range modelGroups {
				m.pop(t, broker(), group, rapid.IntRange(1, 4).Draw(t, "batch"), 60)
			}
		}
		for range rapid.IntRange(1, 8).Draw(t, "steps") {
			var operations []Operation
			duplicate, refused := false, false
			after := map[*modelled]map[string]*model{}
			pushed := map[*modelled]int{}
			for _, m := range parts {
				after[m] = map[string]*model{}
				for _, group := range modelGroups {
					next := *m.groups[group]
					next.dead = slices.Clone(next.dead)
					after[m][group] = &next
					if rapid.IntRange(0, 2).Draw(t, "acks of the group") == 0 {
						continue
					}
					acks, lease := m.drawAcks(t, &next), m.drawLease(t, &next)
					for _, r := range next.ack(acks, lease, m.n, m.retryLimit, m.keep) {
						refused = refused || !r.Success
					}
					for _, a := range m.items(acks, lease) {
						operations = append(operations, Operation{Ack: &a, Group: group})
					}
				}
				for range rapid.IntRange(0, 3).Draw(t, "pushes") {
					n := m.n + pushed[m]
					if rapid.IntRange(0, 9).Draw(t, "again") == 0 {
						n, duplicate = rapid.IntRange(0, m.n-1).Draw(t, "stored"), true
					} else {
						pushed[m]++
					}
					it := item(m.queue, "p", n)
					operations = append(operations, Operation{Push: &it})
				}
			}
			_, err := broker().Transact(tb.t.Context(), Transaction{Tenant: DefaultTenant, Operations: operations})
			var rollback *Rollback
			switch errors.As(err, &rollback); {
			case err == nil:
				require.False(t, duplicate || refused, "committed although one of %d operations cannot be", len(operations))
				for _, m := range parts {
					m.n += pushed[m]
					m.groups = after[m]
				}
			case rollback != nil && duplicate && rollback.Reason == ReasonDuplicate, rollback != nil && refused && rollback.Reason == ReasonAckRejected:
			default:
				require.NoError(t, err)
			}
			for _, m := range parts {
				for _, group := range modelGroups {
					m.same(t, broker(), group)
				}
				if rapid.Bool().Draw(t, "pop") {
					m.pop(t, broker(), rapid.SampledFrom(modelGroups).Draw(t, "group"), rapid.IntRange(1, 4).Draw(t, "batch"), 60)
				}
			}
		}
		for _, m := range parts { // everything that was committed is there once and in order, nothing else is
			for i, b := range tb.brokers {
				group := fmt.Sprint("reader-", i)
				m.groups[group] = &model{committed: -1}
				m.pop(t, b, group, 1000, 60)
			}
		}
	})
}
