package broker

import (
	"time"

	"go.uber.org/zap"
)

// The autopilot chooses how many partitions a pop of a named group takes, where the request did not say. Many sparse
// partitions are taken at once, because each pop and each ack costs a trip; of dense ones only as many as fill the
// batch, because what a pop cannot fill it only keeps from others. Consumers that wait, or are at work under leases,
// share the partitions, so that no pop leaves the others without any.

// AutopilotMode says what becomes of the autopilot's choices.
type AutopilotMode string

// The modes: choices are applied, only counted and logged, or not made.
const (
	AutopilotOn     AutopilotMode = "on"
	AutopilotShadow AutopilotMode = "shadow"
	AutopilotOff    AutopilotMode = "off"
)

// Piloted is what a pop was made with. FillWait is how long it could be held to fill.
type Piloted struct {
	Partitions int
	Batch      int
	FillWait   time.Duration
}

const (
	// pilotBatch is the batch of the autopilot's choice; partitions are what it varies.
	pilotBatch = 200
	// pilotWeight is the share of the newest claim in what is remembered of them.
	pilotWeight = 0.2
	// pilotMemory is for how long a consumer counts that has just left, and will likely be back.
	pilotMemory = time.Second
	// maxPilotBacklog cuts what one partition counts, so that a deep one is soon forgotten.
	maxPilotBacklog = 2 * pilotBatch
)

// pace is what claims of a set have lately been like; guarded by watch.mu.
type pace struct {
	backlog float64 // records that a claimed partition had
	width   float64 // partitions that a claim got
	// holders is how many claims made here still hold leases, held how many entries they hold.
	holders int
	held    int
	// busiest is the most consumers that were seen at once since the given time, and a while before.
	busiest, before int
	since           time.Time
}

func (p *pace) saw(backlog int64, partitions int) {
	mix := func(old *float64, now float64) {
		if *old == 0 {
			*old = now
			return
		}
		*old += pilotWeight * (now - *old)
	}
	mix(&p.backlog, float64(min(backlog/int64(partitions), maxPilotBacklog)))
	mix(&p.width, float64(partitions))
}

// grown notes how many consumers there are now, and returns how many there were at once of late.
func (p *pace) grown(consumers int, now time.Time) int {
	if now.Sub(p.since) >= pilotMemory {
		p.before, p.busiest, p.since = p.busiest, 0, now
	}
	p.busiest = max(p.busiest, consumers)
	return max(p.busiest, p.before)
}

// hold notes that the entry is leased to the claim; become ends that.
func (e *readyEntry) hold(j *claimJob) {
	e.holder = j
	e.set.pace.held++
	if j.held++; j.held == 1 {
		e.set.pace.holders++
	}
}

func (e *readyEntry) letGo() {
	if j := e.holder; j != nil {
		e.holder = nil
		e.set.pace.held--
		if j.held--; j.held == 0 {
			e.set.pace.holders--
		}
	}
}

// share is how many partitions one of the set's consumers may take now: everything that is ready or at work, divided
// by those who wait and those who are at work. Of the latter, those that other brokers serve are known only by what
// they hold.
func (s *readySet) share() int {
	taken := len(s.leased) + len(s.claiming)
	foreign := len(s.leased) - s.pace.held
	consumers := s.parked.Len() + s.pace.holders + int(float64(foreign)/max(s.pace.width, 1)+0.5)
	consumers = s.pace.grown(max(consumers, 1), time.Now())
	return min(max((s.ready.Len()+s.suspects.Len()+taken)/consumers, 1), maxCandidates)
}

// pilot returns the choice for a pop of the set: of the partitions that come first, as many as fill the batch by what
// is known of them, within the consumer's share. Called with watch.mu held.
func (s *readySet) pilot(batch int) (partitions int) {
	most := s.share()
	filled := 0.0
	source := s.ready
	if source.Len() == 0 {
		source = s.suspects
	}
	for el := source.Front(); el != nil && partitions < most && filled < float64(batch); el = el.Next() {
		if e := el.Value.(*readyEntry); e.next >= 0 && e.newest >= e.next {
			filled += float64(e.newest - e.next + 1)
		} else {
			filled += max(s.pace.backlog, 1)
		}
		partitions++
	}
	return max(partitions, 1)
}

// asksPilot says that the call leaves something to the autopilot, in a mode in which it has a say.
func (c *popCall) asksPilot(mode AutopilotMode) bool {
	return mode != AutopilotOff && c.req.Autopilot && !c.req.Pinned && !c.req.Discovery && c.req.Group != QueueMode
}

// steer lets the autopilot choose for the call, right before its claim is made; called with mu held.
func (w *watch) steer(s *readySet, c *popCall) {
	mode := w.b.config.Autopilot
	if !c.asksPilot(mode) {
		return
	}
	c.piloted = nil
	choice := &Piloted{Partitions: c.partitions(s), Batch: c.req.Batch}
	if c.req.BatchDefault {
		choice.Batch = pilotBatch
	}
	if c.req.PartitionsDefault && !s.group.Conflation {
		choice.Partitions = s.pilot(choice.Batch)
	}
	if c.req.Wait && choice.Batch > 1 {
		choice.FillWait = time.Duration(s.queue.options.MinPopWaitTime) * time.Millisecond
	}
	if mode == AutopilotOn {
		c.piloted = choice
	} else {
		w.b.log.Debug("autopilot would choose", zap.String("queue", s.queue.name), zap.String("group", s.name),
			zap.Int("partitions", choice.Partitions), zap.Int("batch", choice.Batch))
	}
	w.b.metrics.piloted(mode, choice)
}

// batch is how many messages one claim may give the call.
func (c *popCall) batch() int {
	if c.piloted != nil {
		return c.piloted.Batch
	}
	return c.req.Batch
}

func (m *metrics) piloted(mode AutopilotMode, choice *Piloted) {
	m.pilots.WithLabelValues(string(mode)).Inc()
	m.pilotWidth.Observe(float64(choice.Partitions))
}
