package pg_test

import (
	"context"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"waggle/pg"
	"waggle/pg/pgtest"
)

// lockBundle opens leader sessions of one installation.
type lockBundle struct {
	*testing.T
	ctx     context.Context
	url     string
	super   string
	cluster uuid.UUID
}

func newLock(t *testing.T) *lockBundle {
	t.Helper()
	database := pgtest.New(t)
	return &lockBundle{T: t, ctx: t.Context(), url: database.URL, super: database.SuperURL, cluster: uuid.New()}
}

func (b *lockBundle) dial(name string, lease time.Duration) *pg.LeaderSession {
	b.Helper()
	session, err := pg.DialLeader(b.ctx, pg.LeaderConfig{
		URL: b.url, Name: name, StartID: uuid.New(), ClusterID: b.cluster, Lease: lease, Knows: pg.Knows{System: 1, Record: 1},
	})
	require.NoError(b, err)
	b.Cleanup(session.Close)
	return session
}

// lead makes a new session the leader.
func (b *lockBundle) lead(name string, lease time.Duration) (*pg.LeaderSession, int64) {
	b.Helper()
	session := b.dial(name, lease)
	won, _, err := session.TryLock(b.ctx)
	require.NoError(b, err)
	require.True(b, won)
	epoch, timeline, _, err := session.Bump(b.ctx)
	require.NoError(b, err)
	require.Len(b, timeline, 8)
	return session, epoch
}

func (b *lockBundle) exec(sql string, args ...any) {
	b.Helper()
	conn, err := pgx.Connect(b.ctx, b.url)
	require.NoError(b, err)
	defer conn.Close(b.ctx)
	_, err = conn.Exec(b.ctx, sql, args...)
	require.NoError(b, err)
}

const lease = 10 * time.Second

func TestLeaderSession(t *testing.T) {
	t.Parallel()

	t.Run("one of two gets the lock, the other learns that somebody leads", func(t *testing.T) {
		t.Parallel()
		b := newLock(t)
		first := b.dial("first", lease)
		second := b.dial("second", lease)
		won, led, err := first.TryLock(b.ctx)
		require.NoError(t, err)
		require.True(t, won)
		require.False(t, led)
		won, led, err = second.TryLock(b.ctx)
		require.NoError(t, err)
		require.False(t, won)
		require.False(t, led, "the holder has not raised its epoch yet")
		holder, err := second.Holder(b.ctx)
		require.NoError(t, err)
		require.Contains(t, holder, `application "waggle leader first"`)

		epoch, _, since, err := first.Bump(b.ctx)
		require.NoError(t, err)
		require.EqualValues(t, 1, epoch)
		require.WithinDuration(t, time.Now(), since, time.Minute)
		_, led, err = second.TryLock(b.ctx)
		require.NoError(t, err)
		require.True(t, led)
		require.NoError(t, first.Heartbeat(b.ctx))
	})

	t.Run("the lock is never taken twice by one session", func(t *testing.T) {
		t.Parallel()
		b := newLock(t)
		first, _ := b.lead("first", lease)
		_, _, err := first.TryLock(b.ctx)
		require.ErrorContains(t, err, "stack")
	})

	t.Run("installations do not meet", func(t *testing.T) {
		t.Parallel()
		b := newLock(t)
		b.lead("first", lease)
		b.cluster = uuid.New()
		won, _, err := b.dial("second", lease).TryLock(b.ctx)
		require.NoError(t, err)
		require.True(t, won)
	})

	t.Run("unlocking vacates the row and frees the lock", func(t *testing.T) {
		t.Parallel()
		b := newLock(t)
		first, epoch := b.lead("first", lease)
		db, err := pg.Open(b.ctx, pg.Config{URL: b.url})
		require.NoError(t, err)
		defer db.Close()
		leader, err := db.ReadLeader(b.ctx, lease)
		require.NoError(t, err)
		require.Equal(t, "first", leader.Name)
		require.Equal(t, epoch, leader.Epoch)

		require.NoError(t, first.Unlock(b.ctx))
		leader, err = db.ReadLeader(b.ctx, lease)
		require.NoError(t, err)
		require.Nil(t, leader)
		_, next := b.lead("second", lease)
		require.Equal(t, epoch+1, next)
	})

	t.Run("nobody is shown as leader who has not stamped itself within the lease", func(t *testing.T) {
		t.Parallel()
		b := newLock(t)
		b.lead("first", lease)
		b.exec("update waggle.leader_seen set seen_at = seen_at - interval '11 seconds'")
		db, err := pg.Open(b.ctx, pg.Config{URL: b.url})
		require.NoError(t, err)
		defer db.Close()
		leader, err := db.ReadLeader(b.ctx, lease)
		require.NoError(t, err)
		require.Nil(t, leader)
	})

	t.Run("bump refuses without the lock", func(t *testing.T) {
		t.Parallel()
		b := newLock(t)
		won, _, err := b.dial("holder", lease).TryLock(b.ctx)
		require.NoError(t, err)
		require.True(t, won)
		_, _, _, err = b.dial("first", lease).Bump(b.ctx)
		var lost *pg.LeadershipError
		require.ErrorAs(t, err, &lost)
	})

	t.Run("bump refuses below the floor", func(t *testing.T) {
		t.Parallel()
		b := newLock(t)
		first := b.dial("first", lease)
		_, _, err := first.TryLock(b.ctx)
		require.NoError(t, err)
		b.exec("update waggle.gate set record_floor = 2")
		_, _, _, err = first.Bump(b.ctx)
		require.ErrorIs(t, err, pg.ErrFloor)
	})

	t.Run("bump waits for a job of the last leader, and keeps the lock meanwhile", func(t *testing.T) {
		t.Parallel()
		b := newLock(t)
		conn, err := pgx.Connect(b.ctx, b.url)
		require.NoError(t, err)
		defer conn.Close(b.ctx)
		tx, err := conn.Begin(b.ctx)
		require.NoError(t, err)
		_, err = tx.Exec(b.ctx, "select from waggle.leader for share")
		require.NoError(t, err)
		first := b.dial("first", lease)
		_, _, err = first.TryLock(b.ctx)
		require.NoError(t, err)
		second := b.dial("second", lease)
		bumped := make(chan error, 1)
		began := time.Now()
		go func() {
			_, _, _, err := first.Bump(b.ctx)
			bumped <- err
		}()
		for time.Since(began) < 600*time.Millisecond {
			won, _, err := second.TryLock(b.ctx)
			require.NoError(t, err)
			require.False(t, won)
		}
		require.Empty(t, bumped, "longer than one lock_timeout")
		require.NoError(t, tx.Rollback(b.ctx))
		require.NoError(t, <-bumped)
		require.NoError(t, first.Heartbeat(b.ctx))
	})
}

func TestHeartbeatFindsOut(t *testing.T) {
	t.Parallel()
	for name, spoil := range map[string]string{
		"another epoch":                   "update waggle.leader set epoch = epoch + 1",
		"an equal epoch of another start": "update waggle.leader set start_id = gen_random_uuid()",
		"a vacant row":                    "update waggle.leader set start_id = null",
		"a row that is gone":              "delete from waggle.leader",
		"a stamp of another epoch":        "update waggle.leader_seen set epoch = epoch + 1",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newLock(t)
			first, _ := b.lead("first", lease)
			b.exec(spoil)
			var lost *pg.LeadershipError
			require.ErrorAs(t, first.Heartbeat(b.ctx), &lost)
			require.True(t, lost.LeadershipLost())
		})
	}

	t.Run("a lock that is gone", func(t *testing.T) {
		t.Parallel()
		b := newLock(t)
		first, epoch := b.lead("first", lease)
		require.NoError(t, first.Unlock(b.ctx))
		b.exec("update waggle.leader set start_id = $1, epoch = $2", uuid.New(), epoch)
		won, _, err := b.dial("second", lease).TryLock(b.ctx)
		require.NoError(t, err)
		require.True(t, won)
		require.ErrorContains(t, first.Heartbeat(b.ctx), "advisory lock is gone")
	})

	t.Run("a backend that was ended", func(t *testing.T) {
		t.Parallel()
		b := newLock(t)
		first, _ := b.lead("first", lease)
		b.exec("select pg_terminate_backend(pid) from waggle.leader")
		require.Error(t, first.Heartbeat(b.ctx))
	})

	t.Run("nothing while a job holds the row", func(t *testing.T) {
		t.Parallel()
		b := newLock(t)
		first, _ := b.lead("first", lease)
		conn, err := pgx.Connect(b.ctx, b.url)
		require.NoError(t, err)
		defer conn.Close(b.ctx)
		tx, err := conn.Begin(b.ctx)
		require.NoError(t, err)
		defer func() { _ = tx.Rollback(b.ctx) }()
		_, err = tx.Exec(b.ctx, "select from waggle.leader for share")
		require.NoError(t, err)
		require.NoError(t, first.Heartbeat(b.ctx), "a heartbeat does not wait for jobs")
	})
}

func TestSessionIsEndedWhenSilentForALease(t *testing.T) {
	t.Parallel()
	b := newLock(t)
	b.lead("silent", time.Second)
	second := b.dial("second", lease)
	require.Eventually(t, func() bool {
		won, _, err := second.TryLock(b.ctx)
		require.NoError(t, err)
		return won
	}, 30*time.Second, 50*time.Millisecond)
}

func TestSessionNeedsAServerThatTakesWrites(t *testing.T) {
	t.Parallel()
	database := pgtest.New(t)
	conn, err := pgx.Connect(t.Context(), database.SuperURL)
	require.NoError(t, err)
	defer conn.Close(t.Context())
	_, err = conn.Exec(t.Context(), "alter role "+pgtest.Role+" in database "+database.Name+" set default_transaction_read_only = on")
	require.NoError(t, err)
	_, err = pg.DialLeader(t.Context(), pg.LeaderConfig{URL: database.URL, Lease: lease})
	require.ErrorContains(t, err, "read only")
}
