package api

import (
	"context"

	"github.com/google/uuid"

	"waggle/admin"
)

// StatisticsReads are sums and history.
type StatisticsReads interface {
	Overview(ctx context.Context, tenant uuid.UUID) (admin.Overview, error)
	Labels(ctx context.Context, tenant uuid.UUID, byTask bool) ([]admin.Label, error)
	Refresh(ctx context.Context) (admin.Refreshed, error)

	Status(ctx context.Context, w admin.Window, f admin.SeriesFilter) (*admin.Status, error)
	QueueStatuses(ctx context.Context, tenant uuid.UUID, f admin.SeriesFilter, limit, offset int) ([]admin.QueueStatus, error)
	Analytics(ctx context.Context, w admin.Window, f admin.SeriesFilter, interval string) (*admin.Analytics, error)

	QueueLag(ctx context.Context, w admin.Window, f admin.SeriesFilter) ([]admin.LagPoint, error)
	QueueOps(ctx context.Context, w admin.Window, f admin.SeriesFilter) (*admin.QueueOps, error)
	ParkedReplicas(ctx context.Context, w admin.Window, f admin.SeriesFilter) (*admin.ParkedReplicas, error)
	Retention(ctx context.Context, w admin.Window, f admin.SeriesFilter, key func(*admin.CountedQueue) string) (*admin.Retention, error)
	// Workload takes one of admin.GroupKeys.
	Workload(ctx context.Context, w admin.Window, f admin.SeriesFilter, groupBy string) (*admin.Workload, error)
	Liveness(ctx context.Context, tenant uuid.UUID, limit int) (*admin.Liveness, error)
	SystemMetrics(ctx context.Context, w admin.Window) (*admin.SystemMetrics, error)
	WorkerMetrics(ctx context.Context, w admin.Window, f admin.SeriesFilter) (*admin.WorkerMetrics, error)
	DeadLetterSignatures(ctx context.Context, tenant uuid.UUID, queue string, limit int) (*admin.DeadLetterSignatures, error)
	PostgresStats(ctx context.Context) ([]byte, error)
}
