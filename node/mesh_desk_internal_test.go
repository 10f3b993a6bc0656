package node

import (
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"waggle/mesh"
	"waggle/pg"
)

func TestMembersOfTheMeshAreShownWithWhatMayBeWrong(t *testing.T) {
	t.Parallel()
	self, other := uuid.New(), uuid.New()
	row := func(id uuid.UUID, name string, keys pg.HeldKeys) pg.Broker {
		return pg.Broker{Registration: pg.Registration{StartID: id, Name: name, Mesh: "10.0.0.1:6633", FrameMin: 1, FrameMax: 2, Keys: keys}}
	}
	fromDatabase := pg.HeldKeys{Source: pg.KeysFromDatabase, Fingerprint: "ours", Ring: 3}
	own := mesh.Member{Name: "a", StartID: self, Self: true, State: mesh.StateAlive}
	seen := func(state mesh.State) []mesh.Member {
		return []mesh.Member{own, {Name: "b", StartID: other, State: state}}
	}
	alone := []mesh.Member{own}
	const firewall, lacks = "a firewall drops", "with a key that this broker does not have (database)"
	for name, row := range map[string]struct {
		view      []mesh.Member
		mine      pg.HeldKeys
		row       *pg.Broker
		held      []string
		state     string
		hint      string
		confirmed bool
	}{
		"alive":                       {seen(mesh.StateAlive), fromDatabase, new(row(other, "b", fromDatabase)), []string{"ours"}, "alive", "", true},
		"behind":                      {seen(mesh.StateAlive), fromDatabase, new(row(other, "b", pg.HeldKeys{Source: pg.KeysFromDatabase, Ring: 2})), []string{"ours"}, "alive", "", false},
		"an older build":              {seen(mesh.StateAlive), fromDatabase, new(row(other, "b", pg.HeldKeys{})), []string{"ours"}, "alive", "", false},
		"left":                        {seen(mesh.StateLeft), fromDatabase, nil, []string{"ours"}, "left", "", false},
		"dead":                        {seen(mesh.StateDead), fromDatabase, nil, []string{"ours"}, "dead", "gone without a word", false},
		"dead here, live there":       {seen(mesh.StateDead), fromDatabase, new(row(other, "b", fromDatabase)), []string{"ours"}, "dead", firewall, true},
		"suspect":                     {seen(mesh.StateSuspect), fromDatabase, new(row(other, "b", fromDatabase)), []string{"ours"}, "suspect", firewall, true},
		"never heard":                 {alone, fromDatabase, new(row(other, "b", fromDatabase)), []string{"ours"}, "unheard", firewall, true},
		"never heard, older build":    {alone, fromDatabase, new(row(other, "b", pg.HeldKeys{})), []string{"ours"}, "unheard", firewall, false},
		"another key of the database": {alone, fromDatabase, new(row(other, "b", pg.HeldKeys{Source: pg.KeysFromDatabase, Fingerprint: "x"})), []string{"ours"}, "unheard", lacks, false},
		"another key of a file": {
			alone, fromDatabase, new(row(other, "b", pg.HeldKeys{Source: pg.KeysFromFile, Fingerprint: "x"})), []string{"ours"}, "unheard", "does not have (file)", false,
		},
		"our key in a file": {
			alone, fromDatabase, new(row(other, "b", pg.HeldKeys{Source: pg.KeysFromFile, Fingerprint: "ours"})), []string{"ours"}, "unheard", "perhaps it lacks ours", false,
		},
		"clear text": {alone, fromDatabase, new(row(other, "b", pg.HeldKeys{Source: pg.KeysOff})), []string{"ours"}, "unheard", "its mesh is not encrypted", false},
		"we speak in clear text": {
			alone, pg.HeldKeys{Source: pg.KeysOff}, new(row(other, "b", fromDatabase)), nil, "unheard", "its mesh is encrypted and this broker's is not", true,
		},
		"both in clear text": {
			alone, pg.HeldKeys{Source: pg.KeysOff}, new(row(other, "b", pg.HeldKeys{Source: pg.KeysOff})), nil, "unheard", firewall, false,
		},
		"without a mesh":  {alone, fromDatabase, &pg.Broker{Registration: pg.Registration{StartID: other, Name: "b"}}, []string{"ours"}, "off", "it runs with --mesh=off", false},
		"we have no mesh": {nil, pg.HeldKeys{}, new(row(other, "b", fromDatabase)), nil, "unheard", "this broker runs with --mesh=off", true},
	} {
		rows := []pg.Broker{{Registration: pg.Registration{StartID: self, Name: "a", Mesh: "10.0.0.2:6633", Keys: row.mine}}}
		if row.row != nil {
			rows = append(rows, *row.row)
		}
		members := meshMembers(self, &mesh.View{Members: row.view}, rows, pg.MeshRing{Number: 3}, row.held)
		require.Len(t, members, 2, name)
		require.True(t, members[0].Self, name)
		got := members[1]
		require.Equal(t, row.state, got.State, name)
		require.Equal(t, row.hint == "", got.Hint == "", name)
		require.Contains(t, got.Hint, row.hint, name)
		require.Equal(t, row.row != nil, got.Registered, name)
		require.Equal(t, row.confirmed, got.Keys.Confirmed, name)
	}
}
