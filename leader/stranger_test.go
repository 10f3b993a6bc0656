package leader_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"

	"waggle/leader"
	"waggle/pg"
	"waggle/pg/pgtest"
)

// Advisory keys belong to a whole database. Another application that happens to use ours keeps everybody from leading; the
// log says who it is, and once it lets go all is well.
func TestAnotherApplicationHoldsTheKey(t *testing.T) {
	t.Parallel()
	database, clusterID := pgtest.New(t), uuid.New()
	settings, err := pgx.ParseConfig(database.SuperURL) // as another role
	require.NoError(t, err)
	settings.RuntimeParams["application_name"] = "billing"
	stranger, err := pgx.ConnectConfig(t.Context(), settings)
	require.NoError(t, err)
	defer stranger.Close(context.Background())
	class, instance := pg.LeaderLockKey(clusterID)
	_, err = stranger.Exec(t.Context(), "select pg_advisory_lock($1, $2)", class, instance)
	require.NoError(t, err)

	core, logs := observer.New(zapcore.WarnLevel)
	registry := prometheus.NewRegistry()
	elector, err := leader.New(leader.Config{
		Dial: func(ctx context.Context) (leader.Session, error) {
			session, err := pg.DialLeader(ctx, pg.LeaderConfig{
				URL: database.URL, Name: "ours", StartID: uuid.New(), ClusterID: clusterID, Lease: time.Second,
				Knows: pg.Knows{System: 1, Record: 1},
			})
			if err != nil {
				return nil, err
			}
			return session, nil
		},
		Lead:  func(ctx context.Context, _ leader.Term) error { <-ctx.Done(); return nil },
		Lease: time.Second, Campaign: 100 * time.Millisecond, Logger: zap.New(core), Registerer: registry,
	})
	require.NoError(t, err)
	ctx, stop := context.WithCancel(context.Background())
	gone := make(chan struct{})
	go func() {
		defer close(gone)
		_ = elector.Run(ctx)
	}()
	t.Cleanup(func() { stop(); <-gone })

	require.Eventually(t, func() bool { return logs.Len() > 0 }, 2*patience, 10*time.Millisecond)
	line := logs.All()[0].ContextMap()
	require.Equal(t, "WG0203", line["code"])
	require.Equal(t, fmt.Sprintf("advisory key (%d, %d): pid %d, role postgres, application %q",
		class, instance, stranger.PgConn().PID(), "billing"), line["holder"])
	require.False(t, elector.Status().IsLeader)
	count, err := testutil.GatherAndCount(registry, "waggle_leader_campaigns_total")
	require.NoError(t, err)
	require.Positive(t, count)

	_, err = stranger.Exec(t.Context(), "select pg_advisory_unlock_all()")
	require.NoError(t, err)
	require.Eventually(t, func() bool { return elector.Status().IsLeader }, patience, 10*time.Millisecond)
	require.Len(t, logs.All(), 1, "it was said once")
}
