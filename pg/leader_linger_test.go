package pg_test

import (
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"waggle/pg"
)

// lingerBundle is a leader, as another broker finds it in the database.
type lingerBundle struct {
	*lockBundle
	db     *pg.DB
	leader *pg.LeaderSession
}

func newLinger(t *testing.T) *lingerBundle {
	t.Helper()
	b := newLock(t)
	leader, _ := b.lead("first", lease)
	db, err := pg.Open(b.ctx, pg.Config{URL: b.url, Knows: pg.Knows{System: 1, Record: 1}})
	require.NoError(t, err)
	t.Cleanup(db.Close)
	return &lingerBundle{b, db, leader}
}

func (b *lingerBundle) backend() *pg.LeaderBackend {
	b.Helper()
	backend, err := b.db.LeaderBackend(b.ctx)
	require.NoError(b, err)
	return backend
}

// silence lets time pass in which the leader has not stamped itself.
func (b *lingerBundle) silence() {
	b.exec("update waggle.leader_seen set seen_at = seen_at - interval '7 seconds'")
}

func (b *lingerBundle) end(backend *pg.LeaderBackend) bool {
	b.Helper()
	ended, err := b.db.EndLeaderSession(b.ctx, backend, 2*lease/3)
	require.NoError(b, err)
	return ended
}

func TestEndLeaderSession(t *testing.T) {
	t.Parallel()

	t.Run("frees the lock of a leader that is silent", func(t *testing.T) {
		t.Parallel()
		b := newLinger(t)
		b.silence()
		backend := b.backend()
		require.Equal(t, "first", backend.Name)
		require.Greater(t, backend.Unseen, 7*time.Second)
		require.True(t, b.end(backend))
		second := b.dial("second", lease)
		require.Eventually(t, func() bool {
			won, _, err := second.TryLock(b.ctx)
			require.NoError(t, err)
			return won
		}, lease/2, 10*time.Millisecond, "long before the server would end the idle session")
		require.Error(t, b.leader.Heartbeat(b.ctx))
		require.False(t, b.end(backend), "there is nothing left to end")
	})

	t.Run("spares a leader that has stamped itself since it was looked at", func(t *testing.T) {
		t.Parallel()
		b := newLinger(t)
		b.silence()
		backend := b.backend()
		require.NoError(t, b.leader.Heartbeat(b.ctx))
		require.False(t, b.end(backend))
		require.Less(t, b.backend().Unseen, 2*lease/3)
		require.NoError(t, b.leader.Heartbeat(b.ctx))
	})

	for name, change := range map[string]func(*pg.LeaderBackend){
		"spares a younger backend with the same pid": func(l *pg.LeaderBackend) { l.Start = l.Start.Add(-time.Microsecond) },
		"spares another pid":                         func(l *pg.LeaderBackend) { l.PID++ },
		"spares the leader of another epoch":         func(l *pg.LeaderBackend) { l.Epoch-- },
		"spares the leader of another start":         func(l *pg.LeaderBackend) { l.StartID = uuid.New() },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newLinger(t)
			b.silence()
			backend := b.backend()
			change(backend)
			require.False(t, b.end(backend))
			require.NoError(t, b.leader.Heartbeat(b.ctx))
		})
	}

	t.Run("spares a session of another role", func(t *testing.T) {
		t.Parallel()
		b := newLinger(t)
		b.silence()
		other, err := pg.Open(b.ctx, pg.Config{URL: b.super})
		require.NoError(t, err)
		t.Cleanup(other.Close)
		ended, err := other.EndLeaderSession(b.ctx, b.backend(), 2*lease/3)
		require.NoError(t, err)
		require.False(t, ended, "not even by one that could")
		require.NoError(t, b.leader.Heartbeat(b.ctx))
	})

	t.Run("finds nobody after a resignation", func(t *testing.T) {
		t.Parallel()
		b := newLinger(t)
		require.NoError(t, b.leader.Unlock(b.ctx))
		require.Nil(t, b.backend())
	})
}
