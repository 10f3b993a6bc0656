package mesh

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"
)

// tableTest drives a table by short sentences.
type tableTest struct {
	t     *testing.T
	table *table
	now   time.Time
	frame FrameRange
}

func newTableTest(t *testing.T) *tableTest {
	now := time.Now()
	return &tableTest{t: t, table: newTable(FrameRange{1, 2}, now), now: now, frame: FrameRange{1, 2}}
}

func (tt *tableTest) node() node {
	meta := encodeMeta(Meta{StartID: targetA, Frames: tt.frame, Build: "b", HTTP: "h"})
	return node{name: nodeName("b1", targetA), address: "10.0.0.1:6633", protocol: 5, meta: meta}
}

func (tt *tableTest) join() *transition { return tt.table.joined(tt.node(), true, tt.now) }

func (tt *tableTest) gone() { tt.table.gone(tt.node().name, tt.now) }

func (tt *tableTest) wait(d time.Duration) {
	for range d / (250 * time.Millisecond) {
		tt.now = tt.now.Add(250 * time.Millisecond)
		tt.table.tick(tt.now, time.Second)
	}
}

func (tt *tableTest) hear() {
	tt.table.peers[tt.node().name].heard.Store(int64(tt.now.Sub(tt.table.base)))
}

func (tt *tableTest) row(left bool) []RegistryMember {
	return []RegistryMember{{Name: "b1", StartID: targetA, Address: "10.0.0.1:6633", Left: left}}
}

func (tt *tableTest) want(state State) {
	tt.t.Helper()
	m, ok := tt.table.view(Member{Name: "self", Self: true}).ByStartID(targetA)
	if state == "" {
		require.False(tt.t, ok, "still listed as %s", m.State)
		return
	}
	require.Equal(tt.t, state, m.State)
}

func TestStatesOfAPeer(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]func(*tableTest){
		"a v2 peer that is not heard for two beacons is suspect, and alive again when heard": func(tt *tableTest) {
			tt.join()
			tt.wait(2 * time.Second)
			tt.want(StateAlive)
			tt.wait(250 * time.Millisecond)
			tt.want(StateSuspect)
			tt.hear()
			tt.wait(250 * time.Millisecond)
			tt.want(StateAlive)
		},
		"a v1 peer is alive while the library lists it": func(tt *tableTest) {
			tt.frame = FrameRange{1, 1}
			tt.join()
			tt.wait(time.Minute)
			tt.want(StateAlive)
			require.Zero(tt.t, tt.table.unheard(originA, tt.now))
		},
		"its leave frame ends it, and 60 s later it is forgotten": func(tt *tableTest) {
			tt.join()
			require.NotNil(tt.t, tt.table.leftFrame(targetA, tt.now))
			tt.want(StateLeft)
			tt.gone()
			tt.want(StateLeft)
			tt.wait(59 * time.Second)
			tt.want(StateLeft)
			tt.wait(time.Second)
			tt.want("")
		},
		"meta from before it left does not bring it back": func(tt *tableTest) {
			tt.join()
			tt.table.leftFrame(targetA, tt.now)
			require.Nil(tt.t, tt.table.joined(tt.node(), false, tt.now))
			tt.want(StateLeft)
		},
		"given up by the library and signed off in the registry, it has left": func(tt *tableTest) {
			tt.join()
			tt.gone()
			tt.want(StateSuspect)
			tt.table.registry(tt.row(true), tt.now, tt.now)
			tt.want(StateLeft)
		},
		"given up by the library and not signed off, it is dead": func(tt *tableTest) {
			tt.join()
			tt.gone()
			tt.table.registry(tt.row(false), tt.now, tt.now)
			tt.want(StateDead)
		},
		"rows that were asked for before the library gave it up decide nothing": func(tt *tableTest) {
			tt.join()
			tt.gone()
			tt.table.registry(tt.row(false), tt.now.Add(-1), tt.now)
			tt.want(StateSuspect)
		},
		"without a registry it is dead after 2 s": func(tt *tableTest) {
			tt.join()
			tt.gone()
			tt.wait(1750 * time.Millisecond)
			tt.want(StateSuspect)
			tt.wait(250 * time.Millisecond)
			tt.want(StateDead)
		},
		"frames do not bring back what the library gave up": func(tt *tableTest) {
			tt.join()
			tt.gone()
			tt.hear()
			tt.wait(time.Second)
			tt.want(StateSuspect)
		},
		"a row that says so later turns dead into left": func(tt *tableTest) {
			tt.join()
			tt.gone()
			tt.wait(3 * time.Second)
			tt.table.registry(tt.row(true), tt.now, tt.now)
			tt.want(StateLeft)
		},
		"the dead can rejoin": func(tt *tableTest) {
			change := tt.join()
			require.False(tt.t, change.rejoin)
			tt.gone()
			tt.wait(3 * time.Second)
			change = tt.join()
			require.True(tt.t, change.rejoin)
			require.Equal(tt.t, StateDead, change.from)
			tt.want(StateAlive)
		},
		"a live row that is not in the view counts as unheard after 5 s": func(tt *tableTest) {
			tt.table.registry(tt.row(false), tt.now, tt.now)
			tt.wait(5 * time.Second)
			require.Zero(tt.t, tt.table.unheard(originA, tt.now))
			tt.wait(250 * time.Millisecond)
			require.Len(tt.t, tt.table.unheard(originA, tt.now), 1)
			require.Zero(tt.t, tt.table.unheard(targetA, tt.now), "oneself is never unheard")
			tt.table.registry(tt.row(true), tt.now, tt.now)
			require.Zero(tt.t, tt.table.unheard(originA, tt.now))
		},
		"a listed peer whose frames do not come counts as unheard": func(tt *tableTest) {
			tt.join()
			tt.table.registry(tt.row(false), tt.now, tt.now)
			tt.wait(6 * time.Second)
			require.Len(tt.t, tt.table.unheard(originA, tt.now), 1)
			tt.hear()
			require.Zero(tt.t, tt.table.unheard(originA, tt.now))
		},
		"meta that cannot be read makes a v1 peer named by the library": func(tt *tableTest) {
			n := tt.node()
			n.meta = []byte{0}
			tt.table.joined(n, true, tt.now)
			tt.wait(time.Minute)
			m, ok := tt.table.view(Member{}).ByStartID(targetA)
			require.True(tt.t, ok)
			require.Equal(tt.t, "b1", m.Name)
			require.Equal(tt.t, FrameRange{1, 1}, m.Frames)
			require.Equal(tt.t, StateAlive, m.State)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(newTableTest(t))
		})
	}
}

func TestViewIsOrdered(t *testing.T) {
	t.Parallel()
	table := newTable(FrameRange{1, 2}, time.Now())
	for i := range 5 {
		start := uuid.UUID{15: byte(9 - i)}
		table.joined(node{name: nodeName(fmt.Sprint("b", i%2), start)}, true, time.Now())
	}
	view := table.view(Member{Name: "b0", StartID: uuid.UUID{15: 1}, Self: true, State: StateAlive})
	var got []string
	for _, m := range view.Members {
		got = append(got, fmt.Sprint(m.Name, "/", m.StartID[15]))
	}
	require.Equal(t, []string{"b0/1", "b0/5", "b0/7", "b0/9", "b1/6", "b1/8"}, got)
	require.Equal(t, 6, view.Count(StateAlive))
	require.True(t, view.Self().Self)
}
