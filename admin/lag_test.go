package admin

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/uuid"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/common/expfmt"
	"github.com/stretchr/testify/require"
	"go.uber.org/zap"

	"waggle/pg"
)

func scrape(t *testing.T, c prometheus.Collector) string {
	t.Helper()
	registry := prometheus.NewPedanticRegistry()
	require.NoError(t, registry.Register(c))
	families, err := registry.Gather()
	require.NoError(t, err)
	var text strings.Builder
	for _, family := range families {
		_, err := expfmt.MetricFamilyToText(&text, family)
		require.NoError(t, err)
	}
	return text.String()
}

func TestLagIsMeasuredAtMostEveryHalfMinuteAndOnlyForScrapes(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var passes atomic.Int64
		c := NewLagCollector(func(_ context.Context, limit int) ([]pg.GroupLag, int, error) {
			require.Equal(t, lagSeries, limit)
			n := passes.Add(1)
			return []pg.GroupLag{{Tenant: uuid.Max, Queue: "bills", Group: "ledger", Records: n, Seconds: 1.5}}, 3, nil
		}, zap.NewNop())
		defer c.Close()

		time.Sleep(time.Hour)
		require.Zero(t, passes.Load())

		for range 20 { // 20 scrapes in 19 s
			require.Contains(t, scrape(t, c),
				`waggle_admin_lag_records{group="ledger",queue="bills",tenant="ffffffff-ffff-ffff-ffff-ffffffffffff"} 1`)
			time.Sleep(time.Second)
		}
		require.EqualValues(t, 1, passes.Load())
		text := scrape(t, c)
		require.Contains(t, text, "waggle_admin_lag_age_seconds 20")
		require.Contains(t, text, "waggle_admin_lag_omitted_groups 2")
		require.Contains(t, text, `waggle_admin_lag_seconds{group="ledger",queue="bills",tenant="ffffffff-ffff-ffff-ffff-ffffffffffff"} 1.5`)

		time.Sleep(lagInterval)
		require.Contains(t, scrape(t, c), `tenant="ffffffff-ffff-ffff-ffff-ffffffffffff"} 2`)
		require.EqualValues(t, 2, passes.Load())
	})
}

func TestASlowPassDelaysNoScrapeAndRunsOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var passes atomic.Int64
		c := NewLagCollector(func(ctx context.Context, _ int) ([]pg.GroupLag, int, error) {
			passes.Add(1)
			time.Sleep(10 * time.Second)
			return []pg.GroupLag{{Queue: "q", Group: "g"}}, 1, nil
		}, zap.NewNop())
		defer c.Close()
		begun := time.Now()
		require.NotContains(t, scrape(t, c), "lag_records")
		require.Equal(t, lagPatience, time.Since(begun))
		require.NotContains(t, scrape(t, c), "lag_records")
		time.Sleep(10 * time.Second)
		require.Contains(t, scrape(t, c), "lag_records")
		require.EqualValues(t, 1, passes.Load())
	})
}

func TestAFailedPassKeepsTheLastFiguresAndWaitsItsTurn(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var passes atomic.Int64
		c := NewLagCollector(func(context.Context, int) ([]pg.GroupLag, int, error) {
			if passes.Add(1) > 1 {
				return nil, 0, errors.New("database is away")
			}
			return []pg.GroupLag{{Queue: "q", Group: "g", Records: 7}}, 1, nil
		}, zap.NewNop())
		defer c.Close()
		scrape(t, c)
		time.Sleep(lagInterval)
		text := scrape(t, c)
		require.Contains(t, text, "} 7\n")
		require.Contains(t, text, "waggle_admin_lag_failures_total 1")
		require.Contains(t, text, "waggle_admin_lag_age_seconds 30")
		scrape(t, c)
		require.EqualValues(t, 2, passes.Load())
	})
}

func TestCloseEndsAPass(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := NewLagCollector(func(ctx context.Context, _ int) ([]pg.GroupLag, int, error) {
			<-ctx.Done()
			return nil, 0, ctx.Err()
		}, zap.NewNop())
		scrape(t, c)
		begun := time.Now()
		c.Close()
		require.Zero(t, time.Since(begun))
		require.NotContains(t, scrape(t, c), "failures_total 1")
	})
}
