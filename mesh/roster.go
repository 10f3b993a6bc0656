package mesh

import (
	"bytes"
	"sync"
	"sync/atomic"

	"github.com/hashicorp/memberlist"
)

// roster takes the library's events. They come under the library's lock, so it copies what they say, leaves a token
// and returns. Of several changes of one node only the outcome is kept, so it cannot overflow.
type roster struct {
	self    string
	changed chan struct{}

	mu      sync.Mutex // guards changes
	changes map[string]change
}

// change is what happened to a node since the last look.
type change struct {
	node    node
	present bool
	joined  bool // not only its meta changed
}

var _ memberlist.EventDelegate = (*roster)(nil)

func newRoster(self string) *roster {
	return &roster{self: self, changed: make(chan struct{}, 1), changes: make(map[string]change)}
}

// NotifyJoin notes a node that the library takes up.
func (r *roster) NotifyJoin(n *memberlist.Node) { r.note(n, true, true) }

// NotifyUpdate notes a node whose meta changed.
func (r *roster) NotifyUpdate(n *memberlist.Node) { r.note(n, true, false) }

// NotifyLeave notes a node that the library gives up.
func (r *roster) NotifyLeave(n *memberlist.Node) { r.note(n, false, false) }

func (r *roster) note(n *memberlist.Node, present, joined bool) {
	if n.Name == r.self {
		return
	}
	copied := node{name: n.Name, address: n.Address(), protocol: n.PMax, meta: bytes.Clone(n.Meta)}
	r.mu.Lock()
	joined = joined || r.changes[n.Name].joined
	r.changes[n.Name] = change{node: copied, present: present, joined: joined}
	r.mu.Unlock()
	select {
	case r.changed <- struct{}{}:
	default:
	}
}

// take returns the changes since the last call.
func (r *roster) take() map[string]change {
	r.mu.Lock()
	defer r.mu.Unlock()
	changes := r.changes
	r.changes = make(map[string]change)
	return changes
}

// delegate is what the library asks and tells us about our own data. It runs on the library's receiving path.
type delegate struct {
	meta   *atomic.Pointer[Meta]
	inbox  chan<- []byte
	meters *meters
}

var _ memberlist.Delegate = (*delegate)(nil)

// NodeMeta is what we tell the others about ourselves.
func (d *delegate) NodeMeta(int) []byte { return encodeMeta(*d.meta.Load()) }

// NotifyMsg takes a frame. The buffer is the library's, so it is copied, but never more than a frame: over a stream the
// library would deliver 20 MiB.
func (d *delegate) NotifyMsg(data []byte) {
	if len(data) > FrameLimit {
		d.meters.drop(dropOversize)
		return
	}
	select {
	case d.inbox <- bytes.Clone(data):
	default:
		// The number is missing now, so a v2 frame that is dropped here is noticed as a gap.
		d.meters.drop(dropInbox)
	}
}

// GetBroadcasts is unused: frames go straight to each peer.
func (d *delegate) GetBroadcasts(int, int) [][]byte { return nil }

// LocalState is unused: Postgres holds the state.
func (d *delegate) LocalState(bool) []byte { return nil }

// MergeRemoteState is unused: Postgres holds the state.
func (d *delegate) MergeRemoteState([]byte, bool) {}
