package admin

import (
	"context"
	"encoding/json"
	"math"
	"strings"
	"time"

	"github.com/google/uuid"

	"waggle/pg"
)

// round keeps two decimals, as rates are read by people.
func round(n float64) float64 { return math.Round(n*100) / 100 }

func average(sum, count int64) float64 {
	if count == 0 {
		return 0
	}
	return round(float64(sum) / float64(count))
}

// Throughput is a bucket of the whole cluster. What the compatible broker has and waggle has not is 0.
type Throughput struct {
	Timestamp          Bucket  `json:"timestamp"`
	Ingested           int64   `json:"ingested"`
	Processed          int64   `json:"processed"`
	PopMessages        int64   `json:"popMessages"`
	IngestedPerSecond  float64 `json:"ingestedPerSecond"`
	ProcessedPerSecond float64 `json:"processedPerSecond"`
	PopPerSecond       float64 `json:"popPerSecond"`
	AvgLagMs           float64 `json:"avgLagMs"`
	MaxLagMs           int64   `json:"maxLagMs"`
	AvgEventLoopLagMs  float64 `json:"avgEventLoopLagMs"`
	MaxEventLoopLagMs  float64 `json:"maxEventLoopLagMs"`
	MinFreeSlots       int64   `json:"minFreeSlots"`
	DBErrors           int64   `json:"dbErrors"`
	AckFailed          int64   `json:"ackFailed"`
	DLQCount           int64   `json:"dlqCount"`
	QueenCPUUserPct    float64 `json:"queenCpuUserPct"`
	QueenCPUSysPct     float64 `json:"queenCpuSysPct"`
	QueenRSSMb         float64 `json:"queenRssMb"`
	DBPoolActive       float64 `json:"dbPoolActive"`
	DBPoolIdle         float64 `json:"dbPoolIdle"`
	DBPoolSize         float64 `json:"dbPoolSize"`
}

// StatusQueue is a queue in Status.
type StatusQueue struct {
	ID            uuid.UUID `json:"id"`
	Name          string    `json:"name"`
	Namespace     string    `json:"namespace"`
	Task          string    `json:"task"`
	Partitions    int64     `json:"partitions"`
	TotalConsumed int64     `json:"totalConsumed"`
}

// Operations counts by kind.
type Operations[T int64 | float64] struct {
	Push T `json:"push"`
	Pop  T `json:"pop"`
	Ack  T `json:"ack"`
}

// ErrorCount is how often a dead letter gave a reason.
type ErrorCount struct {
	Error string `json:"error"`
	Count int64  `json:"count"`
}

// Worker is a broker in Status.
type Worker struct {
	Hostname          string  `json:"hostname"`
	WorkerID          int     `json:"workerId"`
	AvgEventLoopLagMs float64 `json:"avgEventLoopLagMs"`
	MaxEventLoopLagMs float64 `json:"maxEventLoopLagMs"`
	FreeSlots         int64   `json:"freeSlots"`
	DBConnections     float64 `json:"dbConnections"`
	JobQueueSize      *int64  `json:"jobQueueSize"`
	MessagesProcessed int64   `json:"messagesProcessed"`
}

// Status is how the whole cluster did in a window.
type Status struct {
	TimeRange     TimeRange     `json:"timeRange"`
	BucketMinutes int           `json:"bucketMinutes"`
	PointCount    int           `json:"pointCount"`
	StatsAge      float64       `json:"statsAge"`
	Throughput    []Throughput  `json:"throughput"`
	Queues        []StatusQueue `json:"queues"`
	Messages      struct {
		MessageTotals
		Requests        Operations[int64]   `json:"requests"`
		BatchEfficiency Operations[float64] `json:"batchEfficiency"`
	} `json:"messages"`
	Leases struct {
		Active               int64 `json:"active"`
		PartitionsWithLeases int64 `json:"partitionsWithLeases"`
		TotalBatchSize       int64 `json:"totalBatchSize"`
		TotalAcked           int64 `json:"totalAcked"`
	} `json:"leases"`
	DeadLetterQueue struct {
		TotalMessages      int64        `json:"totalMessages"`
		CurrentMessages    int64        `json:"currentMessages"`
		AffectedPartitions int64        `json:"affectedPartitions"`
		TopErrors          []ErrorCount `json:"topErrors"`
	} `json:"deadLetterQueue"`
	Workers []Worker `json:"workers"`
	Errors  struct {
		DBErrors    int64 `json:"dbErrors"`
		AckFailed   int64 `json:"ackFailed"`
		DLQMessages int64 `json:"dlqMessages"`
	} `json:"errors"`
}

// matches tells whether the filter selects the queue.
func (f SeriesFilter) matches(q *CountedQueue) bool {
	same := func(want *string, have string) bool { return want == nil || *want == have }
	return same(f.Queue, q.Name) && same(f.Namespace, q.Namespace) && same(f.Task, q.Task)
}

// Status reads the window; the filter's tenant is nil for the whole cluster.
func (r *Reader) Status(ctx context.Context, w Window, f SeriesFilter) (*Status, error) {
	ctx, cancel := context.WithTimeout(ctx, queryTimeout)
	defer cancel()
	queues, age, err := r.counted(ctx, f.Tenant)
	if err != nil {
		return nil, err
	}
	s := &Status{TimeRange: w.timeRange(), BucketMinutes: w.Step, StatsAge: age}
	s.Throughput, s.Queues, s.Workers, s.DeadLetterQueue.TopErrors = []Throughput{}, []StatusQueue{}, []Worker{}, []ErrorCount{}
	var ids []int64
	for i := range queues {
		q := &queues[i]
		if !f.matches(q) {
			continue
		}
		ids = append(ids, q.ID)
		s.Queues = append(s.Queues, StatusQueue{
			ID: q.id, Name: q.Name, Namespace: q.Namespace, Task: q.Task, Partitions: q.Partitions, TotalConsumed: q.Completed,
		})
		s.Messages.add(&q.MessageCounts)
	}
	if err := r.fillHistory(ctx, s, w, f); err != nil {
		return nil, err
	}
	leases, err := r.db.CountLeases(ctx, ids)
	if err != nil {
		return nil, failed("count leases", err)
	}
	s.Leases.Active, s.Leases.PartitionsWithLeases, s.Leases.TotalBatchSize = leases.Active, leases.Partitions, leases.Batch
	letters, err := r.db.SumDeadLetters(ctx, ids)
	if err != nil {
		return nil, failed("sum dead letters", err)
	}
	d := &s.DeadLetterQueue
	d.CurrentMessages, d.TotalMessages, d.AffectedPartitions = letters.Rows, letters.Rows, letters.Partitions
	for _, e := range letters.Errors {
		d.TopErrors = append(d.TopErrors, ErrorCount{Error: strings.ToValidUTF8(string(e.Text), "\ufffd"), Count: e.Count})
	}
	return s, nil
}

// fillHistory fills in what the rows of the window say.
func (r *Reader) fillHistory(ctx context.Context, s *Status, w Window, f SeriesFilter) error {
	points, err := r.db.QueueSeries(ctx, w.rows(f))
	if err != nil {
		return failed("read series", err)
	}
	brokers, err := r.db.BrokerSeries(ctx, w.rows(f))
	if err != nil {
		return failed("read brokers", err)
	}
	byBucket := map[time.Time]pg.BrokerActivity{}
	byBroker := map[string]pg.BrokerActivity{}
	var names []string
	for _, p := range brokers {
		byBucket[p.Bucket.UTC()] = sumBrokers(byBucket[p.Bucket.UTC()], p.BrokerActivity)
		if _, known := byBroker[p.Broker]; !known {
			names = append(names, p.Broker)
		}
		byBroker[p.Broker] = sumBrokers(byBroker[p.Broker], p.BrokerActivity)
		s.Errors.DBErrors += p.DBErrors
	}
	var total pg.QueueActivity
	for _, p := range points {
		b := byBucket[p.Bucket.UTC()]
		s.Throughput = append(s.Throughput, throughputOf(w, p, b))
		total.PushRequests, total.PushMessages = total.PushRequests+p.PushRequests, total.PushMessages+p.PushMessages
		total.PopRequests, total.PopMessages = total.PopRequests+p.PopRequests, total.PopMessages+p.PopMessages
		total.AckRequests, total.AckSuccess = total.AckRequests+p.AckRequests, total.AckSuccess+p.AckSuccess
		s.Errors.AckFailed, s.Errors.DLQMessages = s.Errors.AckFailed+p.AckFailed, s.Errors.DLQMessages+p.DeadLetters
	}
	s.PointCount = len(s.Throughput)
	s.Messages.Requests = Operations[int64]{total.PushRequests, total.PopRequests, total.AckRequests}
	s.Messages.BatchEfficiency = Operations[float64]{
		average(total.PushMessages, total.PushRequests), average(total.PopMessages, total.PopRequests), average(total.AckSuccess, total.AckRequests),
	}
	for i, name := range names {
		b := byBroker[name]
		s.Workers = append(s.Workers, Worker{Hostname: name, WorkerID: i, DBConnections: average(b.PoolSize, b.Samples)})
	}
	return nil
}

func sumBrokers(a, b pg.BrokerActivity) pg.BrokerActivity {
	return pg.BrokerActivity{
		Samples: a.Samples + b.Samples, CPUUser: a.CPUUser + b.CPUUser, CPUSystem: a.CPUSystem + b.CPUSystem, Elapsed: a.Elapsed + b.Elapsed,
		Memory: a.Memory + b.Memory, PoolSize: a.PoolSize + b.PoolSize, PoolIdle: a.PoolIdle + b.PoolIdle, DBErrors: a.DBErrors + b.DBErrors,
	}
}

func percent(part, whole time.Duration) float64 {
	if whole <= 0 {
		return 0
	}
	return round(100 * part.Seconds() / whole.Seconds())
}

const megabyte = 1 << 20

func throughputOf(w Window, p pg.QueuePoint, b pg.BrokerActivity) Throughput {
	rate := func(n int64) float64 { return round(float64(n) / w.seconds()) }
	return Throughput{
		Timestamp: Bucket(p.Bucket), Ingested: p.PushMessages, Processed: p.AckSuccess, PopMessages: p.PopMessages,
		IngestedPerSecond: rate(p.PushMessages), ProcessedPerSecond: rate(p.AckSuccess), PopPerSecond: rate(p.PopMessages),
		AvgLagMs: average(p.LagSumMillis, p.LagCount), MaxLagMs: p.LagMaxMillis, DBErrors: b.DBErrors, AckFailed: p.AckFailed,
		DLQCount: p.DeadLetters, QueenCPUUserPct: percent(b.CPUUser, b.Elapsed), QueenCPUSysPct: percent(b.CPUSystem, b.Elapsed),
		QueenRSSMb: round(average(b.Memory, b.Samples) / megabyte), DBPoolActive: average(b.PoolSize-b.PoolIdle, b.Samples),
		DBPoolIdle: average(b.PoolIdle, b.Samples), DBPoolSize: average(b.PoolSize, b.Samples),
	}
}

// QueueStatus is a queue in the list of status/queues.
type QueueStatus struct {
	ID         uuid.UUID `json:"id"`
	Name       string    `json:"name"`
	Namespace  string    `json:"namespace"`
	Task       string    `json:"task"`
	CreatedAt  Moment    `json:"createdAt"`
	Partitions int64     `json:"partitions"`
	Messages   struct {
		Total      int64 `json:"total"`
		Pending    int64 `json:"pending"`
		Processing int64 `json:"processing"`
		Completed  int64 `json:"completed"`
		DeadLetter int64 `json:"deadLetter"`
	} `json:"messages"`
}

// QueueStatuses lists the tenant's queues that the filter selects, newest first, a page of them.
func (r *Reader) QueueStatuses(ctx context.Context, tenant uuid.UUID, f SeriesFilter, limit, offset int) ([]QueueStatus, error) {
	ctx, cancel := context.WithTimeout(ctx, queryTimeout)
	defer cancel()
	queues, _, err := r.counted(ctx, &tenant)
	if err != nil {
		return nil, err
	}
	out := []QueueStatus{}
	for i := range queues {
		q := &queues[i]
		if !f.matches(q) {
			continue
		}
		if offset > 0 {
			offset--
			continue
		}
		if len(out) == limit {
			break
		}
		s := QueueStatus{
			ID: q.id, Name: q.Name, Namespace: q.Namespace, Task: q.Task, CreatedAt: Moment(q.CreatedAt), Partitions: q.Partitions,
		}
		s.Messages.Total, s.Messages.Pending, s.Messages.Processing = q.Messages, q.Pending, q.Processing
		s.Messages.Completed, s.Messages.DeadLetter = q.Completed, q.DeadLetter
		out = append(out, s)
	}
	return out, nil
}

// StatusConfig is what status/queues/:queue shows of a queue's options.
type StatusConfig struct {
	LeaseTime       int64 `json:"leaseTime"`
	RetryLimit      int64 `json:"retryLimit"`
	RetryDelay      int64 `json:"retryDelay"`
	TTL             int64 `json:"ttl"`
	MaxQueueSize    int64 `json:"maxQueueSize"`
	DeadLetterQueue bool  `json:"deadLetterQueue"`
}

// Config reads those options.
func (q *QueueDetail) Config() (c StatusConfig, err error) {
	var options struct {
		StatusConfig
		MaxSize int64 `json:"maxSize"`
	}
	err = json.Unmarshal(q.Options, &options)
	options.MaxQueueSize = options.MaxSize
	return options.StatusConfig, err
}
