package pg_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"waggle/pg"
)

func TestFence(t *testing.T) {
	t.Parallel()
	write := func(ctx context.Context, tx pgx.Tx) error {
		_, err := tx.Exec(ctx, "insert into waggle.job (name) values ('written')")
		return err
	}
	written := func(b *reignBundle) int { return b.count("from waggle.job where name = 'written'") }

	t.Run("lets the reign through that the row names", func(t *testing.T) {
		t.Parallel()
		b := newReign(t)
		require.NoError(t, b.fenced.Do(b.ctx, write))
		require.Equal(t, 1, written(b))
	})

	for name, change := range map[string]func(*pg.Reign){
		"refuses an old epoch":                       func(r *pg.Reign) { r.Epoch-- },
		"refuses an equal epoch of another start id": func(r *pg.Reign) { r.StartID = uuid.New() },
		"refuses an equal pair of another timeline":  func(r *pg.Reign) { r.Timeline = "00000009" },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newReign(t)
			reign := b.reign
			change(&reign)
			err := b.db.Fenced(reign).Do(b.ctx, write)
			var fenced *pg.FencedError
			require.ErrorAs(t, err, &fenced)
			require.Equal(t, b.reign, fenced.Found)
			require.True(t, fenced.LeadershipLost())
			require.Zero(t, written(b))
		})
	}

	t.Run("refuses everybody while nobody leads", func(t *testing.T) {
		t.Parallel()
		b := newReign(t)
		b.exec("update waggle.leader set start_id = null")
		var fenced *pg.FencedError
		require.ErrorAs(t, b.fenced.Do(b.ctx, write), &fenced)
		require.Zero(t, written(b))
	})

	t.Run("refuses a build below the floor", func(t *testing.T) {
		t.Parallel()
		b := newReign(t)
		b.exec("update waggle.gate set system_floor = 2")
		require.ErrorIs(t, b.fenced.Do(b.ctx, write), pg.ErrFloor)
		require.Zero(t, written(b))
	})

	t.Run("makes the next bump wait for the transaction", func(t *testing.T) {
		t.Parallel()
		b := newReign(t)
		err := b.fenced.Do(b.ctx, func(ctx context.Context, tx pgx.Tx) error {
			other, err := b.db.Pool().Begin(ctx)
			require.NoError(t, err)
			defer func() { _ = other.Rollback(ctx) }()
			_, err = other.Exec(ctx, "set local lock_timeout = '50ms'")
			require.NoError(t, err)
			_, err = other.Exec(ctx, "update waggle.leader set epoch = epoch + 1")
			require.ErrorContains(t, err, "55P03")
			return nil
		})
		require.NoError(t, err)
	})

	t.Run("commits nothing of a leader that was demoted meanwhile", func(t *testing.T) {
		t.Parallel()
		b := newReign(t)
		demoted := errors.New("demoted")
		ctx, demote := context.WithCancelCause(b.ctx)
		err := b.fenced.Do(ctx, func(ctx context.Context, tx pgx.Tx) error {
			require.NoError(t, write(ctx, tx))
			demote(demoted)
			return nil
		})
		require.ErrorIs(t, err, demoted)
		require.Zero(t, written(b))
	})

	t.Run("lets go of a transaction that a frozen leader holds open", func(t *testing.T) {
		t.Parallel()
		b := newReign(t)
		frozen := make(chan struct{})
		done := make(chan error, 1)
		go func() {
			done <- b.fenced.Do(b.ctx, func(ctx context.Context, tx pgx.Tx) error {
				close(frozen)
				<-ctx.Done()
				_, err := tx.Exec(context.WithoutCancel(ctx), "select 1")
				return err
			})
		}()
		<-frozen
		began := time.Now()
		b.enthrone(uuid.New())
		require.Less(t, time.Since(began), 2400*time.Millisecond)
		require.Error(t, <-done)
	})
}
