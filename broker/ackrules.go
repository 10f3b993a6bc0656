package broker

import "slices"

// The rules of section 4.5 of the contract, without any IO: the path through memory and the path through the
// database both end here.

const (
	errPool         = "pool"
	errNotOwned     = "partition not owned by tenant"
	errNoConsumer   = "consumer not found"
	errLease        = "invalid or expired lease"
	errBelow        = "already committed: the cursor moved past this message before this ack"
	errUnresolvable = "unresolvable: transaction not in the ack window (hash purged or never pushed); if leased, the message redelivers"
	errAckFlush     = "ack flush failed; lease will expire and redeliver"
	exhausted       = "Retries exhausted"
)

// cursorState is a cursor as an ack finds it. batchEnd counts only while live.
type cursorState struct {
	committed int64
	batchEnd  int64
	live      bool
	retry     int
	// conflates says that the group is given only the newest record, which is at batchEnd while live.
	conflates bool
}

// resolved is an acked message whose place is known, or not: offset -1 is not found, at or below committed is late.
type resolved struct {
	offset int64
	status AckStatus
	err    string
}

// decision is what an ack set does to its cursor.
type decision struct {
	committed int64
	release   bool
	retry     int
	// bury is the offset to dead-letter, -1 for none; cause is its error text.
	bury  int64
	cause string
	// signalled tells that records after committed come again.
	signalled bool
	results   []AckResult
}

// decideAck applies a set of acks to a cursor. deadLetters says that the queue keeps what runs out of retries.
func decideAck(c cursorState, items []resolved, retryLimit int, deadLetters bool) decision {
	d := decision{committed: c.committed, retry: c.retry, bury: -1, results: make([]AckResult, len(items))}
	signal, worst := int64(-1), AckCompleted
	for i, item := range items {
		switch {
		case item.offset < 0:
			d.results[i].Error = errUnresolvable
		case item.offset <= c.committed && item.status == AckCompleted:
			d.results[i].Success, d.results[i].Noop = true, true
		case item.offset <= c.committed:
			d.results[i].Error = errBelow
		default:
			d.results[i].Success = true
			if item.status == AckCompleted {
				break
			}
			if signal < 0 || item.offset < signal || item.offset == signal && graver(item.status, worst) {
				signal, worst = item.offset, item.status
			}
		}
	}
	for _, item := range items {
		if item.status == AckCompleted && item.offset > d.committed && (signal < 0 || item.offset < signal) {
			d.committed = item.offset
		}
	}
	switch {
	case signal >= 0 && c.live:
		d.signalled, d.release = true, true
		d.applySignal(signal, worst, items, retryLimit, deadLetters)
	case signal < 0 && c.live && d.committed >= c.batchEnd:
		d.release, d.retry = true, 0
	}
	for i := range d.results {
		if d.results[i].Success {
			d.results[i].LeaseReleased, d.results[i].DLQ, d.results[i].Conflated = d.release, d.bury >= 0, c.conflates
		}
	}
	return d
}

func (d *decision) applySignal(signal int64, worst AckStatus, items []resolved, retryLimit int, deadLetters bool) {
	switch {
	case worst == AckRetry:
		return
	case worst == AckFailed && d.retry < retryLimit:
		d.retry++
		return
	case worst == AckDLQ || deadLetters:
		d.bury = signal
	}
	d.committed, d.retry = signal, 0
	d.cause = causeAt(signal, items)
}

// graver orders the signals at one offset: dlq before failed before retry.
func graver(a, b AckStatus) bool {
	rank := []AckStatus{AckDLQ, AckFailed, AckRetry, AckCompleted}
	return slices.Index(rank, a) < slices.Index(rank, b)
}

// causeAt is the error text of the item at the poison offset, else the first one of a nack, else a fixed text.
func causeAt(signal int64, items []resolved) string {
	first := ""
	for _, item := range items {
		if item.status == AckCompleted || item.err == "" {
			continue
		}
		if item.offset == signal {
			return item.err
		}
		if first == "" {
			first = item.err
		}
	}
	if first == "" {
		return exhausted
	}
	return first
}
