package mesh

import (
	"time"

	"github.com/google/uuid"
)

// State is how a broker stands in the view.
type State string

// The states of a peer; see the package comment for what leads from one to another.
const (
	StateAlive   State = "alive"
	StateSuspect State = "suspect"
	StateLeft    State = "left"
	StateDead    State = "dead"
)

var states = []State{StateAlive, StateSuspect, StateLeft, StateDead}

// listed says whether a broker in this state is still sent frames.
func (s State) listed() bool { return s == StateAlive || s == StateSuspect }

// Member is one broker as another one sees it.
type Member struct {
	// Name is the configured broker name; a restarted broker keeps it and gets a new StartID.
	Name    string
	StartID uuid.UUID
	Self    bool
	State   State
	// Since is when this broker saw the member enter State.
	Since time.Time
	// Address is the advertised ip:port of the mesh.
	Address string
	// Build, HTTP and Schema are empty for a peer whose node meta this build cannot read; Frames is 1..1 then.
	Build    string
	HTTP     string
	Frames   FrameRange
	Schema   SchemaRange
	Draining bool
	Leader   bool
}

// View is a snapshot of the membership, this broker included. It never changes.
type View struct {
	// Members are ordered by name, then by start id.
	Members []Member
}

// Self is this broker.
func (v *View) Self() Member {
	for _, m := range v.Members {
		if m.Self {
			return m
		}
	}
	return Member{}
}

// ByStartID finds a member by the id of its start.
func (v *View) ByStartID(start uuid.UUID) (Member, bool) {
	for _, m := range v.Members {
		if m.StartID == start {
			return m, true
		}
	}
	return Member{}, false
}

// Count is how many members are in a state.
func (v *View) Count(state State) int {
	n := 0
	for _, m := range v.Members {
		if m.State == state {
			n++
		}
	}
	return n
}
