package admin

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/google/uuid"

	"waggle/pg"
)

// GroupKeys are what queues may be grouped by, with the key that a queue has then.
var GroupKeys = map[string]func(*CountedQueue) string{
	"queue":     func(q *CountedQueue) string { return q.Name },
	"namespace": func(q *CountedQueue) string { return q.Namespace },
	"task":      func(q *CountedQueue) string { return q.Task },
}

// Workload is what happened to queues that share a key, those with most pushed first. Buckets are the oldest first, and
// only those in which anything happened.
type Workload struct {
	TimeRange     TimeRange      `json:"timeRange"`
	BucketMinutes int            `json:"bucketMinutes"`
	GroupBy       string         `json:"groupBy"`
	Buckets       []Bucket       `json:"buckets"`
	Rows          []*WorkloadRow `json:"rows"`
	Tenant        uuid.UUID      `json:"tenant"`
}

// WorkloadRow is one key: sums over the window, a number for each bucket, and what is there now.
type WorkloadRow struct {
	Key    string `json:"key"`
	Queues int    `json:"queues"`
	Window struct {
		PushRequests int64    `json:"pushRequests"`
		PushMessages int64    `json:"pushMessages"`
		PopMessages  int64    `json:"popMessages"`
		PopEmpty     int64    `json:"popEmpty"`
		AckSuccess   int64    `json:"ackSuccess"`
		AckFailed    int64    `json:"ackFailed"`
		Transactions int64    `json:"transactions"`
		DeadLetters  int64    `json:"deadLetters"`
		AvgLagMs     *float64 `json:"avgLagMs"`
		MaxLagMs     *int64   `json:"maxLagMs"`
	} `json:"window"`
	Series struct {
		PushMessages []int64 `json:"pushMessages"`
		PopMessages  []int64 `json:"popMessages"`
		AckSuccess   []int64 `json:"ackSuccess"`
	} `json:"series"`
	Now struct {
		Partitions int64 `json:"partitions"`
		MessageTotals
	} `json:"now"`

	lagCount, lagSum int64
}

// Workload compares queues, namespaces or tasks (a key of GroupKeys) over a window; the filter must name a tenant.
func (r *Reader) Workload(ctx context.Context, w Window, f SeriesFilter, groupBy string) (*Workload, error) {
	ctx, cancel := context.WithTimeout(ctx, queryTimeout)
	defer cancel()
	points, err := r.series(ctx, w, f, true, false)
	if err != nil {
		return nil, err
	}
	queues, _, err := r.counted(ctx, f.Tenant)
	if err != nil {
		return nil, err
	}
	o := &Workload{
		TimeRange: w.timeRange(), BucketMinutes: w.Step, GroupBy: groupBy, Buckets: []Bucket{}, Rows: []*WorkloadRow{}, Tenant: *f.Tenant,
	}
	slices.Reverse(points)
	for i := range points {
		if n := len(o.Buckets); n == 0 || !time.Time(o.Buckets[n-1]).Equal(points[i].Bucket) {
			o.Buckets = append(o.Buckets, Bucket(points[i].Bucket))
		}
	}
	byKey, byQueue := map[string]*WorkloadRow{}, map[string]*WorkloadRow{}
	for i := range queues {
		q := &queues[i]
		if !f.matches(q) {
			continue
		}
		key := GroupKeys[groupBy](q)
		row := byKey[key]
		if row == nil {
			row = newWorkloadRow(key, len(o.Buckets))
			byKey[key] = row
			o.Rows = append(o.Rows, row)
		}
		byQueue[q.Name] = row
		row.Queues++
		row.Now.Partitions += q.Partitions
		row.Now.add(&q.MessageCounts)
	}
	bucket := -1
	for i := range points {
		p := &points[i]
		if bucket < 0 || !time.Time(o.Buckets[bucket]).Equal(p.Bucket) {
			bucket++
		}
		if row := byQueue[p.Name]; row != nil { // else it was deleted between the two reads
			row.add(bucket, p)
		}
	}
	slices.SortFunc(o.Rows, func(a, b *WorkloadRow) int {
		return cmp.Or(cmp.Compare(b.Window.PushMessages, a.Window.PushMessages), cmp.Compare(a.Key, b.Key))
	})
	return o, nil
}

func newWorkloadRow(key string, buckets int) *WorkloadRow {
	row := &WorkloadRow{Key: key}
	row.Series.PushMessages, row.Series.PopMessages, row.Series.AckSuccess = make([]int64, buckets), make([]int64, buckets), make([]int64, buckets)
	return row
}

func (row *WorkloadRow) add(bucket int, p *pg.QueuePoint) {
	row.Series.PushMessages[bucket] += p.PushMessages
	row.Series.PopMessages[bucket] += p.PopMessages
	row.Series.AckSuccess[bucket] += p.AckSuccess
	w := &row.Window
	w.PushRequests += p.PushRequests
	w.PushMessages += p.PushMessages
	w.PopMessages += p.PopMessages
	w.PopEmpty += p.PopEmpty
	w.AckSuccess += p.AckSuccess
	w.AckFailed += p.AckFailed
	w.Transactions += p.Transactions
	w.DeadLetters += p.DeadLetters
	if p.LagCount > 0 {
		row.lagCount, row.lagSum = row.lagCount+p.LagCount, row.lagSum+p.LagSumMillis
		mean, highest := average(row.lagSum, row.lagCount), p.LagMaxMillis
		if w.MaxLagMs != nil {
			highest = max(highest, *w.MaxLagMs)
		}
		w.AvgLagMs, w.MaxLagMs = &mean, &highest
	}
}

// Liveness is how many partitions of queues were written to lately.
type Liveness struct {
	CapturedAt Moment        `json:"capturedAt"`
	Rows       []LivenessRow `json:"rows"`
}

// LivenessRow is one queue.
type LivenessRow struct {
	Queue         string `json:"queue"`
	Namespace     string `json:"namespace"`
	Task          string `json:"task"`
	Partitions    int64  `json:"partitions"`
	Live1h        int64  `json:"live1h"`
	Live24h       int64  `json:"live24h"`
	Live7d        int64  `json:"live7d"`
	Created24h    int64  `json:"created24h"`
	OldestWriteAt Moment `json:"oldestWriteAt"`
	NewestWriteAt Moment `json:"newestWriteAt"`
	Pending       int64  `json:"pending"`
}

// Liveness lists the tenant's queues with most partitions, as of the last statistics pass.
func (r *Reader) Liveness(ctx context.Context, tenant uuid.UUID, limit int) (*Liveness, error) {
	ctx, cancel := context.WithTimeout(ctx, queryTimeout)
	defer cancel()
	age, err := r.db.StatisticsAge(ctx)
	if err != nil {
		return nil, failed("read age of counters", err)
	}
	queues, err := r.db.PartitionLiveness(ctx, tenant, limit)
	if err != nil {
		return nil, failed("read liveness", err)
	}
	o := &Liveness{Rows: make([]LivenessRow, len(queues))}
	if age >= 0 {
		o.CapturedAt = Moment(time.Now().Add(-time.Duration(age * float64(time.Second))))
	}
	for i := range queues {
		q := &queues[i]
		o.Rows[i] = LivenessRow{
			Queue: q.Queue, Namespace: q.Namespace, Task: q.Task, Partitions: q.Partitions, Live1h: q.LastHour, Live24h: q.LastDay,
			Live7d: q.LastWeek, Created24h: q.CreatedLastDay, OldestWriteAt: moment(q.Oldest), NewestWriteAt: moment(q.Newest), Pending: q.Pending,
		}
	}
	return o, nil
}
