package node

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"

	"waggle/leader"
	"waggle/mesh"
	"waggle/pg"
	"waggle/pg/pgtest"
)

func TestLeaderGone(t *testing.T) {
	t.Parallel()
	id, other := uuid.New(), uuid.New()
	leads := func(state mesh.State) mesh.Member { return mesh.Member{StartID: id, State: state, Leader: true} }
	follows := func(state mesh.State) mesh.Member { return mesh.Member{StartID: other, State: state} }
	view := func(members ...mesh.Member) *mesh.View { return &mesh.View{Members: members} }
	alive := view(leads(mesh.StateAlive), follows(mesh.StateAlive))
	for name, test := range map[string]struct {
		before, now *mesh.View
		gone        bool
	}{
		"nothing changed":             {alive, alive, false},
		"the leader is suspect":       {alive, view(leads(mesh.StateSuspect), follows(mesh.StateAlive)), true},
		"the leader is dead":          {alive, view(leads(mesh.StateDead), follows(mesh.StateAlive)), true},
		"the leader has left":         {alive, view(leads(mesh.StateLeft), follows(mesh.StateAlive)), true},
		"the leader is not listed":    {alive, view(follows(mesh.StateAlive)), true},
		"it was gone before":          {view(leads(mesh.StateSuspect)), view(leads(mesh.StateDead)), false},
		"the leader is back":          {view(leads(mesh.StateSuspect)), view(leads(mesh.StateAlive)), false},
		"somebody else is dead":       {alive, view(leads(mesh.StateAlive), follows(mesh.StateDead)), false},
		"it gave up and lives":        {alive, view(follows(mesh.StateAlive), mesh.Member{StartID: id, State: mesh.StateAlive}), false},
		"this broker itself is going": {view(mesh.Member{StartID: id, Self: true, State: mesh.StateAlive, Leader: true}), view(), false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			require.Equal(t, test.gone, leaderGone(test.before, test.now))
		})
	}
}

func TestLeaderWatcher(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		id := uuid.New()
		var state atomic.Value
		state.Store(mesh.StateAlive)
		var hints, looks atomic.Int64
		w := leaderWatcher{
			view: func() *mesh.View {
				return &mesh.View{Members: []mesh.Member{{StartID: id, Leader: true, State: state.Load().(mesh.State)}}}
			},
			gone: func() { hints.Add(1) },
			dead: func(_ context.Context, dead map[uuid.UUID]bool) {
				if dead[id] && len(dead) == 1 {
					looks.Add(1)
				}
			},
		}
		ctx, stop := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() {
			defer close(done)
			w.run(ctx)
		}()
		after := func(next mesh.State, wait time.Duration, wantHints, wantLooks int64) {
			t.Helper()
			state.Store(next)
			time.Sleep(wait)
			synctest.Wait()
			require.Equal(t, wantHints, hints.Load())
			require.Equal(t, wantLooks, looks.Load())
		}
		after(mesh.StateAlive, time.Minute, 0, 0)
		after(mesh.StateSuspect, leaderWatch, 1, 0)
		after(mesh.StateSuspect, time.Minute, 1, 0)
		after(mesh.StateDead, leaderWatch, 1, 1)
		after(mesh.StateDead, 10*lingerWatch, 1, 11)
		after(mesh.StateAlive, time.Minute, 1, 11)
		after(mesh.StateLeft, time.Minute, 2, 11)
		stop()
		<-done
	})
}

// The node asks both, the mesh and the database, before it ends a session.
func TestEndLingeringLeader(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		dead, silent, ended bool
	}{
		"the mesh says dead, the database has heard of it": {dead: true},
		"the database has not heard of it, the mesh has":   {silent: true},
		"neither hears of it":                              {dead: true, silent: true, ended: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			database := pgtest.New(t)
			db, err := pg.Open(t.Context(), pg.Config{URL: database.URL})
			require.NoError(t, err)
			t.Cleanup(db.Close)
			startID := uuid.New()
			session, err := pg.DialLeader(t.Context(), pg.LeaderConfig{
				URL: database.URL, Name: "first", StartID: startID, Lease: time.Minute, Knows: pg.Knows{System: 1, Record: 1},
			})
			require.NoError(t, err)
			t.Cleanup(session.Close)
			won, _, err := session.TryLock(t.Context())
			require.NoError(t, err)
			require.True(t, won)
			_, _, _, err = session.Bump(t.Context())
			require.NoError(t, err)
			if test.silent {
				_, err := db.Pool().Exec(t.Context(), "update waggle.leader_seen set seen_at = seen_at - interval '1 minute'")
				require.NoError(t, err)
			}
			core, logs := observer.New(zapcore.WarnLevel)
			n := &Node{db: db, logger: zap.New(core)}
			n.elector, err = leader.New(leader.Config{NeverLead: true})
			require.NoError(t, err)

			n.endLingeringLeader(t.Context(), map[uuid.UUID]bool{uuid.New(): true, startID: test.dead})
			require.Equal(t, !test.ended, session.Heartbeat(t.Context()) == nil)
			if !test.ended {
				require.Empty(t, logs.All())
				return
			}
			require.Len(t, logs.All(), 1)
			line := logs.All()[0].ContextMap()
			require.Equal(t, "WG0208", line["code"])
			require.Equal(t, "first", line["leader"])
			require.Equal(t, startID.String(), line["start_id"])
			require.NotZero(t, line["pid"])
		})
	}
}
