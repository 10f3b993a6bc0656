package mesh

import (
	"cmp"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/google/uuid"
)

// Times that decide states.
const (
	// listedAfterEnd is how long left and dead peers stay in the view.
	listedAfterEnd = 60 * time.Second
	// verdictTimeout is how long a peer that the library gave up waits for its registry row to be read.
	verdictTimeout = 2 * time.Second
	// unheardAfter is when a live v2 broker counts as unheard.
	unheardAfter = 5 * time.Second
)

// node is what the library says about a peer, copied out of its callback.
type node struct {
	name     string // of the library: broker name, dash, start id
	address  string // ip:port
	protocol uint8  // highest library protocol, which decides on the checksum
	meta     []byte
}

// peer is one broker other than this one. All but heard and sender's own state belongs to the membership loop.
type peer struct {
	node    node
	name    string
	start   uuid.UUID
	meta    Meta
	version uint8 // to send; 0 when none is in common

	state     State
	since     time.Time
	opened    uint32    // when the last stream to it was opened; rises with each
	goneSince time.Time // the library gave it up; its registry row decides what that means

	// heard is when the last frame from it came, in nanoseconds after the table's base. The receiving loop writes it.
	heard  atomic.Int64
	tally  tally
	sender *sender
}

// transition is a change that the membership loop acts on.
type transition struct {
	peer   *peer
	from   State // empty for a peer that was not known
	rejoin bool
}

// table decides which state each peer is in. It is pure: it starts nothing, waits for nothing and is told the time.
// Times carry a monotonic reading, so a clock that is set does not move them.
type table struct {
	ours  FrameRange
	base  time.Time
	peers map[string]*peer // by the library's name

	// firstSeen is when a live registry row was first read, for rows that never make it into the view.
	rows      []RegistryMember
	firstSeen map[uuid.UUID]time.Time
}

func newTable(ours FrameRange, base time.Time) *table {
	return &table{ours: ours, base: base, peers: make(map[string]*peer), firstSeen: make(map[uuid.UUID]time.Time)}
}

// joined notes that the library lists a peer, for the first time, again, or with other meta.
func (t *table) joined(n node, again bool, now time.Time) *transition {
	p, known := t.peers[n.name]
	if !known {
		p = &peer{}
		t.peers[n.name] = p
	}
	from := p.state
	p.describe(n, t.ours)
	if known && !again {
		// Other meta, perhaps from before it left: no reason to believe that it is back.
		return nil
	}
	p.goneSince = time.Time{}
	p.heard.Store(int64(now.Sub(t.base)))
	p.enter(StateAlive, now)
	return &transition{peer: p, from: from, rejoin: known}
}

// describe takes over what a node says about itself.
func (p *peer) describe(n node, ours FrameRange) {
	p.node = n
	name, start := splitNodeName(n.name)
	meta, err := decodeMeta(n.meta)
	if err == nil {
		start = meta.StartID
	}
	p.name, p.start, p.meta = name, start, meta
	p.version, _ = VersionFor(ours, meta.Frames)
}

func (p *peer) enter(state State, now time.Time) {
	if p.state != state {
		p.state, p.since = state, now
	}
}

// gone notes that the library gave a peer up. Whether it left or died is for its registry row to say.
func (t *table) gone(name string, now time.Time) *transition {
	p, known := t.peers[name]
	if !known || !p.state.listed() {
		return nil
	}
	from := p.state
	p.goneSince = now
	p.enter(StateSuspect, now)
	return &transition{peer: p, from: from}
}

// leftFrame notes a peer's own word that it leaves.
func (t *table) leftFrame(start uuid.UUID, now time.Time) *transition {
	for _, p := range t.peers {
		if p.start == start && p.state.listed() {
			return p.end(StateLeft, now)
		}
	}
	return nil
}

func (p *peer) end(state State, now time.Time) *transition {
	from := p.state
	p.goneSince = time.Time{}
	p.enter(state, now)
	return &transition{peer: p, from: from}
}

// registry takes over rows that were asked for at the given time.
func (t *table) registry(rows []RegistryMember, asked, now time.Time) (changes []transition) {
	t.rows = rows
	left := make(map[uuid.UUID]bool, len(rows))
	live := make(map[uuid.UUID]bool, len(rows))
	for _, row := range rows {
		left[row.StartID] = row.Left
		live[row.StartID] = !row.Left
		if _, known := t.firstSeen[row.StartID]; !known && !row.Left {
			t.firstSeen[row.StartID] = now
		}
	}
	for start := range t.firstSeen {
		if !live[start] {
			delete(t.firstSeen, start)
		}
	}
	for _, p := range t.peers {
		switch {
		case left[p.start] && p.state != StateLeft:
			changes = append(changes, *p.end(StateLeft, now))
		case !p.goneSince.IsZero() && !asked.Before(p.goneSince):
			changes = append(changes, *p.end(StateDead, now))
		}
	}
	return changes
}

// tick moves peers between alive and suspect by when they were heard, ends what waited too long for its registry
// row, and forgets what ended long ago.
func (t *table) tick(now time.Time, beacon time.Duration) (changes []transition) {
	for name, p := range t.peers {
		switch {
		case !p.state.listed():
			if now.Sub(p.since) >= listedAfterEnd {
				delete(t.peers, name)
			}
		case !p.goneSince.IsZero():
			if now.Sub(p.goneSince) >= verdictTimeout {
				changes = append(changes, *p.end(StateDead, now))
			}
		default:
			from, state := p.state, StateAlive
			if p.version >= 2 && now.Sub(t.lastHeard(p)) > 2*beacon {
				state = StateSuspect
			}
			if state != from {
				p.enter(state, now)
				changes = append(changes, transition{peer: p, from: from})
			}
		}
	}
	return changes
}

func (t *table) lastHeard(p *peer) time.Time { return t.base.Add(time.Duration(p.heard.Load())) }

// unheard are the names in live registry rows of brokers that have a mesh, speak v2 and were not heard lately, listed
// or not.
func (t *table) unheard(self uuid.UUID, now time.Time) (names []string) {
	if t.ours.Max < 2 {
		return nil
	}
	peers := make(map[uuid.UUID]*peer, len(t.peers))
	for _, p := range t.peers {
		peers[p.start] = p
	}
	for _, row := range t.rows {
		if row.Left || row.Address == "" || row.StartID == self || row.Frames.Max == 1 {
			continue
		}
		heard := t.firstSeen[row.StartID]
		if p, known := peers[row.StartID]; known {
			if p.state == StateLeft || p.version == 1 {
				continue
			}
			heard = t.lastHeard(p)
		}
		if now.Sub(heard) > unheardAfter {
			names = append(names, row.Name)
		}
	}
	slices.Sort(names)
	return names
}

// listed is how many brokers there are, this one included.
func (t *table) listed() int {
	n := 1
	for _, p := range t.peers {
		if p.state.listed() {
			n++
		}
	}
	return n
}

// view builds a snapshot around this broker's own entry.
func (t *table) view(self Member) *View {
	members := make([]Member, 0, len(t.peers)+1)
	members = append(members, self)
	for _, p := range t.peers {
		members = append(members, Member{
			Name: p.name, StartID: p.start, State: p.state, Since: p.since, Address: p.node.address,
			Build: p.meta.Build, HTTP: p.meta.HTTP, Frames: p.meta.Frames, Schema: p.meta.Schema,
			Draining: p.meta.Draining, Leader: p.meta.Leader,
		})
	}
	slices.SortFunc(members, func(a, b Member) int {
		return cmp.Or(strings.Compare(a.Name, b.Name), slices.Compare(a.StartID[:], b.StartID[:]))
	})
	return &View{Members: members}
}

// nodeName is how the library knows a broker.
func nodeName(name string, start uuid.UUID) string { return name + "-" + start.String() }

// splitNodeName takes a library name apart; the start id is zero when there is none in it.
func splitNodeName(full string) (string, uuid.UUID) {
	const suffix = 1 + 36
	if len(full) > suffix && full[len(full)-suffix] == '-' {
		if start, err := uuid.Parse(full[len(full)-suffix+1:]); err == nil {
			return full[:len(full)-suffix], start
		}
	}
	return full, uuid.UUID{}
}
