package pg_test

import (
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"waggle/pg"
)

func broker(name, mesh string, source pg.KeySource, ring int64) pg.Broker {
	return pg.Broker{Registration: pg.Registration{Name: name, Mesh: mesh, Keys: pg.HeldKeys{Source: source, Ring: ring}}}
}

func spell(keys [][]byte) string {
	var text []string
	for _, key := range keys {
		text = append(text, string(key))
	}
	return strings.Join(text, " ")
}

func TestRotationGoesOnOnlyWhenEveryLiveBrokerHasConfirmed(t *testing.T) {
	t.Parallel()
	holder := func(name string, ring int64) pg.Broker {
		return broker(name, "10.0.0.1:6633", pg.KeysFromDatabase, ring)
	}
	at := func(ring int64) []pg.Broker { return []pg.Broker{holder("a", ring), holder("b", ring)} }
	older := broker("c", "10.0.0.3:6633", "", 0)
	filed := broker("c", "10.0.0.3:6633", pg.KeysFromFile, 0)
	open := broker("c", "10.0.0.3:6633", pg.KeysOff, 0)
	meshless := broker("c", "", "", 0)
	for name, row := range map[string]struct {
		step    pg.RotationStep
		keys    string
		brokers []pg.Broker
		next    pg.RotationStep
		becomes string
		moves   bool
		ring    int64 // the number afterwards, from 7
	}{
		"nothing is asked for":                    {pg.NoRotation, "old", at(7), pg.NoRotation, "old", false, 7},
		"install":                                 {pg.RotationRequested, "old", at(7), pg.RotationInstall, "old new", true, 8},
		"use":                                     {pg.RotationInstall, "old new", at(7), pg.RotationUse, "new old", true, 8},
		"remove":                                  {pg.RotationUse, "new old", at(7), pg.RotationRemove, "new", true, 8},
		"done":                                    {pg.RotationRemove, "new", at(7), pg.NoRotation, "new", true, 7},
		"older keys go as well":                   {pg.RotationUse, "new old older", at(7), pg.RotationRemove, "new", true, 8},
		"the newest key is the one used":          {pg.RotationInstall, "old older new", at(7), pg.RotationUse, "new old older", true, 8},
		"one has not installed":                   {pg.RotationInstall, "old new", []pg.Broker{holder("a", 7), holder("b", 6)}, pg.RotationInstall, "old new", false, 7},
		"one does not use":                        {pg.RotationUse, "new old", []pg.Broker{holder("a", 6), holder("b", 7)}, pg.RotationUse, "new old", false, 7},
		"one has not removed":                     {pg.RotationRemove, "new", []pg.Broker{holder("a", 7), holder("b", 6)}, pg.RotationRemove, "new", false, 7},
		"one never said":                          {pg.RotationInstall, "old new", append(at(7), holder("c", 0)), pg.RotationInstall, "old new", false, 7},
		"an older build is not even begun with":   {pg.RotationRequested, "old", append(at(7), older), pg.RotationRequested, "old", false, 7},
		"an older build in the middle":            {pg.RotationInstall, "old new", append(at(7), older), pg.RotationInstall, "old new", false, 7},
		"a file in the middle":                    {pg.RotationUse, "new old", append(at(7), filed), pg.RotationUse, "new old", false, 7},
		"clear text in the middle":                {pg.RotationUse, "new old", append(at(7), open), pg.RotationUse, "new old", false, 7},
		"one without a mesh needs no key":         {pg.RotationUse, "new old", append(at(7), meshless), pg.RotationRemove, "new", true, 8},
		"nobody lives":                            {pg.RotationInstall, "old new", nil, pg.RotationUse, "new old", true, 8},
		"replaced by somebody else after install": {pg.RotationInstall, "other", at(7), pg.NoRotation, "other", true, 7},
		"replaced by somebody else after use":     {pg.RotationUse, "other", at(7), pg.NoRotation, "other", true, 7},
		"a step that this build does not know":    {"polish", "new old", at(7), pg.NoRotation, "new old", true, 7},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ring := pg.MeshRing{Number: 7, Step: row.step}
			for key := range strings.FieldsSeq(row.keys) {
				ring.Keys = append(ring.Keys, []byte(key))
			}
			next, moves := ring.Next(row.brokers, []byte("new"))
			require.Equal(t, row.next, next.Step)
			require.Equal(t, row.becomes, spell(next.Keys))
			require.Equal(t, row.moves, moves)
			require.Equal(t, row.ring, next.Number)
			require.Equal(t, row.keys, spell(ring.Keys), "the ring before is left alone")
		})
	}
}

func TestWhoBlocksARotationIsSaidWithTheReason(t *testing.T) {
	t.Parallel()
	silent := broker("a", "m", pg.KeysFromDatabase, 3)
	silent.SeenAgo = 20 * time.Second
	for says, holder := range map[string]pg.Broker{
		"":                                 broker("a", "m", pg.KeysFromDatabase, 4),
		"has not confirmed ring 4 yet":     broker("a", "m", pg.KeysFromDatabase, 3),
		"does not understand rotation":     broker("a", "m", "", 0),
		"last heard 20s ago":               silent,
		"--mesh-key-file":                  broker("a", "m", pg.KeysFromFile, 0),
		"not encrypted (--mesh-encryption": broker("a", "m", pg.KeysOff, 0),
	} {
		lacks := holder.LacksRing(4)
		require.Contains(t, lacks, says)
		require.Equal(t, says == "", lacks == "")
	}
	require.Equal(t, []string{"b: its keys come from a file (--mesh-key-file)"}, pg.Unrotatable([]pg.Broker{
		broker("a", "m", pg.KeysFromDatabase, 1), broker("b", "m", pg.KeysFromFile, 0), broker("c", "m", "", 0),
		broker("d", "", pg.KeysFromFile, 0),
	}))
}

// member is a broker that has read the ring and says so.
func (b *reignBundle) member(name string) pg.Registration {
	b.Helper()
	ring, err := b.db.MeshRing(b.ctx)
	require.NoError(b, err)
	r := registration(name)
	r.Keys = pg.HeldKeys{Source: pg.KeysFromDatabase, Fingerprint: "f", Ring: ring.Number}
	return r
}

func (b *reignBundle) advance() (pg.MeshRing, bool, []pg.Broker) {
	b.Helper()
	ring, advanced, waiting, err := b.fenced.AdvanceRotation(b.ctx)
	require.NoError(b, err)
	return ring, advanced, waiting
}

func TestRotationIsKeptInTheDatabaseOverReigns(t *testing.T) {
	t.Parallel()
	b := newReign(t)
	before := ensure(t, b.db)
	one, two := b.member("one"), b.member("two")
	require.NoError(t, b.db.Admit(b.ctx, one))
	require.NoError(t, b.db.Admit(b.ctx, two))
	_, advanced, _ := b.advance()
	require.False(t, advanced, "nobody asked for it")

	_, _, err := b.fenced.Claim(b.ctx, pg.RotationJob, 600e9)
	require.NoError(t, err)
	for i, started := range []bool{true, false} {
		got, err := b.db.RequestRotation(b.ctx, "one")
		require.NoError(t, err)
		require.Equal(t, started, got, "request %d", i)
	}
	confirm := func(r pg.Registration) {
		beat, err := b.db.Heartbeat(b.ctx, r.StartID, r.Build, false, r.Keys)
		require.NoError(t, err)
		require.True(t, beat.Rotating)
		r.Keys.Ring = beat.MeshRing
		_, err = b.db.Heartbeat(b.ctx, r.StartID, r.Build, false, r.Keys)
		require.NoError(t, err)
	}
	for _, step := range []pg.RotationStep{pg.RotationInstall, pg.RotationUse, pg.RotationRemove} {
		due, _, err := b.fenced.Claim(b.ctx, pg.RotationJob, 600e9)
		require.NoError(t, err)
		require.True(t, due, "the job is due at once, under each leader")
		ring, advanced, waiting := b.advance()
		require.True(t, advanced)
		require.Equal(t, step, ring.Step)
		require.Empty(t, waiting)

		b.enthrone(uuid.New())
		confirm(one)
		again, advanced, waiting := b.advance()
		require.False(t, advanced)
		require.Equal(t, step, again.Step, "the next leader finds it where it was")
		require.Equal(t, ring.Keys, again.Keys)
		require.Equal(t, "one", again.RequestedBy)
		require.Len(t, waiting, 1)
		require.Equal(t, "two", waiting[0].Name)
		require.Contains(t, waiting[0].LacksRing(ring.Number), "has not confirmed")
		confirm(two)
	}
	ring, advanced, _ := b.advance()
	require.True(t, advanced)
	require.Equal(t, pg.NoRotation, ring.Step)
	after, err := b.db.MeshRing(b.ctx)
	require.NoError(t, err)
	require.Len(t, after.Keys, 1)
	require.NotEqual(t, before.MeshKeys, after.Keys)
	require.Equal(t, before.MeshRing+3, after.Number)
	require.NotZero(t, after.RotatedAt)
}

func TestABrokerThatReadTheRingBeforeItMovedIsNotAdmittedWithIt(t *testing.T) {
	t.Parallel()
	b := newReign(t)
	ensure(t, b.db)
	late := b.member("late")
	_, err := b.db.RequestRotation(b.ctx, "nobody")
	require.NoError(t, err)
	b.advance()
	require.ErrorIs(t, b.db.Admit(b.ctx, late), pg.ErrRingMoved)
	require.NoError(t, b.db.Admit(b.ctx, b.member("late")))
}

func TestRotationIsRefusedWhileKeysComeFromElsewhere(t *testing.T) {
	t.Parallel()
	b := newReign(t)
	ensure(t, b.db)
	filed := registration("filed")
	filed.Keys = pg.HeldKeys{Source: pg.KeysFromFile, Fingerprint: "f"}
	require.NoError(t, b.db.Admit(b.ctx, filed))
	_, err := b.db.RequestRotation(b.ctx, "filed")
	var refused *pg.UnrotatableError
	require.ErrorAs(t, err, &refused)
	require.ErrorContains(t, err, "filed: its keys come from a file (--mesh-key-file)")
	require.NoError(t, b.db.Leave(b.ctx, filed.StartID))
	started, err := b.db.RequestRotation(b.ctx, "filed")
	require.NoError(t, err)
	require.True(t, started, "who has left does not matter")
}

func TestACopyOfADatabaseBeginsWithoutARotation(t *testing.T) {
	t.Parallel()
	b := newReign(t)
	before := ensure(t, b.db)
	_, err := b.db.RequestRotation(b.ctx, "somebody")
	require.NoError(t, err)
	b.exec("update waggle.installation set system_identifier = '42'")
	after := ensure(t, b.db)
	ring, err := b.db.MeshRing(b.ctx)
	require.NoError(t, err)
	require.Equal(t, pg.NoRotation, ring.Step)
	require.Equal(t, after.MeshKeys, ring.Keys)
	require.Greater(t, ring.Number, before.MeshRing)
}
