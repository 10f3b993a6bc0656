package admin

import (
	"context"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/google/uuid"

	"waggle/pg"
)

// LagPoint is how old messages of a queue were when they were popped.
type LagPoint struct {
	QueueName     string   `json:"queueName"`
	PopCount      int64    `json:"popCount"`
	AvgLagMs      *float64 `json:"avgLagMs"`
	MaxLagMs      *int64   `json:"maxLagMs"`
	BucketMinutes int      `json:"bucketMinutes"`
	BucketTime    Bucket   `json:"bucketTime"`
}

// lag is null where nothing was popped.
func lag(p *pg.QueueActivity) (avg *float64, highest *int64) {
	if p.LagCount == 0 {
		return nil, nil
	}
	mean := average(p.LagSumMillis, p.LagCount)
	return &mean, &p.LagMaxMillis
}

func (r *Reader) series(ctx context.Context, w Window, f SeriesFilter, byQueue, byBroker bool) ([]pg.QueuePoint, error) {
	ctx, cancel := context.WithTimeout(ctx, queryTimeout)
	defer cancel()
	rows := w.rows(f)
	rows.ByQueue, rows.ByBroker = byQueue, byBroker
	points, err := r.db.QueueSeries(ctx, rows)
	if err != nil {
		return nil, failed("read series", err)
	}
	return points, nil
}

// QueueLag lists lag by queue and bucket, newest first; buckets in which nothing was popped are left out.
func (r *Reader) QueueLag(ctx context.Context, w Window, f SeriesFilter) ([]LagPoint, error) {
	points, err := r.series(ctx, w, f, true, false)
	if err != nil {
		return nil, err
	}
	out := []LagPoint{}
	for i := range points {
		p := &points[i]
		if p.PopRequests == p.PopEmpty {
			continue
		}
		l := LagPoint{QueueName: p.Name, PopCount: p.PopRequests - p.PopEmpty, BucketMinutes: w.Step, BucketTime: Bucket(p.Bucket)}
		l.AvgLagMs, l.MaxLagMs = lag(&p.QueueActivity)
		out = append(out, l)
	}
	return out, nil
}

// OpsPoint is a bucket of a queue.
type OpsPoint struct {
	Bucket            Bucket   `json:"bucket"`
	QueueName         string   `json:"queueName"`
	PushRequests      int64    `json:"pushRequests"`
	PushMessages      int64    `json:"pushMessages"`
	PopMessages       int64    `json:"popMessages"`
	PopEmpty          int64    `json:"popEmpty"`
	AckRequests       int64    `json:"ackRequests"`
	AckSuccess        int64    `json:"ackSuccess"`
	AckFailed         int64    `json:"ackFailed"`
	Transactions      int64    `json:"transactions"`
	PartitionsCreated int64    `json:"partitionsCreated"`
	PartitionsDeleted int64    `json:"partitionsDeleted"`
	PartitionCount    int64    `json:"partitionCount"`
	AvgLagMs          *float64 `json:"avgLagMs"`
	MaxLagMs          *int64   `json:"maxLagMs"`
	PushPerSecond     float64  `json:"pushPerSecond"`
	PopPerSecond      float64  `json:"popPerSecond"`
	AckPerSecond      float64  `json:"ackPerSecond"`
	EmptyPerSecond    float64  `json:"emptyPerSecond"`
	ParkedCount       int64    `json:"parkedCount"`
}

// QueueOps is what was done for queues in a window.
type QueueOps struct {
	TimeRange     TimeRange  `json:"timeRange"`
	BucketMinutes int        `json:"bucketMinutes"`
	Series        []OpsPoint `json:"series"`
	Queues        []string   `json:"queues"`
}

// QueueOps reads the window by queue; the filter must name a tenant.
func (r *Reader) QueueOps(ctx context.Context, w Window, f SeriesFilter) (*QueueOps, error) {
	points, err := r.series(ctx, w, f, true, false)
	if err != nil {
		return nil, err
	}
	counted, _, err := r.counted(ctx, f.Tenant)
	if err != nil {
		return nil, err
	}
	partitions := make(map[string]int64, len(counted))
	for i := range counted {
		partitions[counted[i].Name] = counted[i].Partitions
	}
	o := &QueueOps{TimeRange: w.timeRange(), BucketMinutes: w.Step, Series: []OpsPoint{}, Queues: []string{}}
	rate := func(n int64) float64 { return round(float64(n) / w.seconds()) }
	for i := range points {
		p := &points[i]
		point := OpsPoint{
			Bucket: Bucket(p.Bucket), QueueName: p.Name, PushRequests: p.PushRequests, PushMessages: p.PushMessages, PopMessages: p.PopMessages,
			PopEmpty: p.PopEmpty, AckRequests: p.AckRequests, AckSuccess: p.AckSuccess, AckFailed: p.AckFailed, Transactions: p.Transactions,
			PartitionsCreated: p.PartitionsCreated, PartitionCount: partitions[p.Name], PushPerSecond: rate(p.PushMessages),
			PopPerSecond: rate(p.PopMessages), AckPerSecond: rate(p.AckSuccess), EmptyPerSecond: rate(p.PopEmpty), ParkedCount: p.Parked,
		}
		point.AvgLagMs, point.MaxLagMs = lag(&p.QueueActivity)
		o.Series = append(o.Series, point)
		if !slices.Contains(o.Queues, p.Name) {
			o.Queues = append(o.Queues, p.Name)
		}
	}
	slices.Sort(o.Queues)
	return o, nil
}

// ParkedPoint is how many consumers of a queue were parked on a broker.
type ParkedPoint struct {
	Bucket      Bucket `json:"bucket"`
	QueueName   string `json:"queueName"`
	Hostname    string `json:"hostname"`
	WorkerID    int    `json:"workerId"`
	ParkedCount int64  `json:"parkedCount"`
}

// ParkedReplicas is where consumers were parked.
type ParkedReplicas struct {
	TimeRange     TimeRange     `json:"timeRange"`
	BucketMinutes int           `json:"bucketMinutes"`
	Series        []ParkedPoint `json:"series"`
	Replicas      []string      `json:"replicas"`
}

// ParkedReplicas reads the window by queue and broker.
func (r *Reader) ParkedReplicas(ctx context.Context, w Window, f SeriesFilter) (*ParkedReplicas, error) {
	points, err := r.series(ctx, w, f, true, true)
	if err != nil {
		return nil, err
	}
	o := &ParkedReplicas{TimeRange: w.timeRange(), BucketMinutes: w.Step, Series: []ParkedPoint{}, Replicas: []string{}}
	for _, p := range points {
		if p.Parked == 0 {
			continue
		}
		o.Series = append(o.Series, ParkedPoint{Bucket: Bucket(p.Bucket), QueueName: p.Name, Hostname: p.Broker, ParkedCount: p.Parked})
		if !slices.Contains(o.Replicas, p.Broker) {
			o.Replicas = append(o.Replicas, p.Broker)
		}
	}
	slices.Sort(o.Replicas)
	return o, nil
}

// RetentionCounts are messages that retention took away, by rule.
type RetentionCounts struct {
	RetentionMsgs          int64 `json:"retentionMsgs"`
	CompletedRetentionMsgs int64 `json:"completedRetentionMsgs"`
	EvictionMsgs           int64 `json:"evictionMsgs"`
	TotalMsgs              int64 `json:"totalMsgs"`
	EventCount             int64 `json:"eventCount"`
}

func (c *RetentionCounts) add(p *pg.QueueActivity) {
	c.RetentionMsgs += p.Expired
	c.CompletedRetentionMsgs += p.Completed
	c.EvictionMsgs += p.Evicted
	c.TotalMsgs += p.Expired + p.Completed + p.Evicted
	c.EventCount += p.RetentionSteps
}

// RetentionPoint is a bucket of Retention.
type RetentionPoint struct {
	Bucket Bucket `json:"bucket"`
	RetentionCounts
}

// RetentionRow sums one queue, namespace or task.
type RetentionRow struct {
	Key string `json:"key"`
	RetentionCounts
}

// Retention is what retention took away in a window. Rows is nil unless it was grouped.
type Retention struct {
	TimeRange     TimeRange        `json:"timeRange"`
	BucketMinutes int              `json:"bucketMinutes"`
	Series        []RetentionPoint `json:"series"`
	Totals        RetentionCounts  `json:"totals"`
	Rows          []RetentionRow   `json:"rows,omitempty"`
}

// Retention reads the window; key, unless it is nil, says to which row a queue belongs.
func (r *Reader) Retention(ctx context.Context, w Window, f SeriesFilter, key func(*CountedQueue) string) (*Retention, error) {
	points, err := r.series(ctx, w, f, true, false)
	if err != nil {
		return nil, err
	}
	o := &Retention{TimeRange: w.timeRange(), BucketMinutes: w.Step, Series: []RetentionPoint{}}
	keys := map[string]string{}
	if key != nil {
		o.Rows = []RetentionRow{}
		queues, _, err := r.counted(ctx, f.Tenant)
		if err != nil {
			return nil, err
		}
		for i := range queues {
			keys[queues[i].Name] = key(&queues[i])
		}
	}
	rows := map[string]*RetentionCounts{}
	for i := range points {
		p := &points[i].QueueActivity
		if p.RetentionSteps == 0 {
			continue
		}
		if n := len(o.Series); n == 0 || !time.Time(o.Series[n-1].Bucket).Equal(points[i].Bucket) {
			o.Series = append(o.Series, RetentionPoint{Bucket: Bucket(points[i].Bucket)})
		}
		o.Series[len(o.Series)-1].add(p)
		o.Totals.add(p)
		if key != nil {
			name := keys[points[i].Name]
			if rows[name] == nil {
				rows[name] = &RetentionCounts{}
			}
			rows[name].add(p)
		}
	}
	for name, counts := range rows {
		o.Rows = append(o.Rows, RetentionRow{name, *counts})
	}
	slices.SortFunc(o.Rows, func(a, b RetentionRow) int { return strings.Compare(a.Key, b.Key) })
	return o, nil
}

// DataPoint is a bucket of status/analytics.
type DataPoint struct {
	Timestamp Bucket `json:"timestamp"`
	Messages  int64  `json:"messages"`
}

// Analytics counts pushed messages by interval, newest first.
type Analytics struct {
	DataPoints []DataPoint `json:"dataPoints"`
	Interval   string      `json:"interval"`
	From       Moment      `json:"from"`
	To         Moment      `json:"to"`
}

// Intervals are what status/analytics may be cut into, in minutes.
var Intervals = map[string]int{"minute": 1, "hour": 60, "day": 24 * 60}

// Analytics reads a window cut into intervals.
func (r *Reader) Analytics(ctx context.Context, w Window, f SeriesFilter, interval string) (*Analytics, error) {
	w.Step = Intervals[interval]
	points, err := r.series(ctx, w, f, false, false)
	if err != nil {
		return nil, err
	}
	a := &Analytics{DataPoints: []DataPoint{}, Interval: interval, From: Moment(w.From), To: Moment(w.To)}
	for _, p := range points {
		a.DataPoints = append(a.DataPoints, DataPoint{Bucket(p.Bucket), p.PushMessages})
	}
	return a, nil
}

// WorkerPoint is a bucket of all brokers together.
type WorkerPoint struct {
	Timestamp         Bucket   `json:"timestamp"`
	PushMessages      int64    `json:"pushMessages"`
	PopMessages       int64    `json:"popMessages"`
	AckMessages       int64    `json:"ackMessages"`
	PushRequests      int64    `json:"pushRequests"`
	PopRequests       int64    `json:"popRequests"`
	AckRequests       int64    `json:"ackRequests"`
	JobsDone          int64    `json:"jobsDone"`
	PushPerSecond     float64  `json:"pushPerSecond"`
	PopPerSecond      float64  `json:"popPerSecond"`
	AckPerSecond      float64  `json:"ackPerSecond"`
	AvgEventLoopLagMs float64  `json:"avgEventLoopLagMs"`
	MaxEventLoopLagMs float64  `json:"maxEventLoopLagMs"`
	AvgFreeSlots      float64  `json:"avgFreeSlots"`
	MinFreeSlots      int64    `json:"minFreeSlots"`
	DBConnections     float64  `json:"dbConnections"`
	AvgJobQueueSize   float64  `json:"avgJobQueueSize"`
	MaxJobQueueSize   int64    `json:"maxJobQueueSize"`
	BackoffSize       int64    `json:"backoffSize"`
	AvgLagMs          *float64 `json:"avgLagMs"`
	MaxLagMs          *int64   `json:"maxLagMs"`
	LagCount          int64    `json:"lagCount"`
	DBErrors          int64    `json:"dbErrors"`
	AckSuccess        int64    `json:"ackSuccess"`
	AckFailed         int64    `json:"ackFailed"`
	DLQCount          int64    `json:"dlqCount"`
}

// QueueLagSum is a queue's lag over a whole window.
type QueueLagSum struct {
	QueueName string   `json:"queueName"`
	PopCount  int64    `json:"popCount"`
	AvgLagMs  *float64 `json:"avgLagMs"`
	MaxLagMs  *int64   `json:"maxLagMs"`
}

// WorkerMetrics is how the brokers did in a window.
type WorkerMetrics struct {
	TimeRange     TimeRange     `json:"timeRange"`
	BucketMinutes int           `json:"bucketMinutes"`
	PointCount    int           `json:"pointCount"`
	TimeSeries    []WorkerPoint `json:"timeSeries"`
	Workers       []Worker      `json:"workers"`
	Queues        []QueueLagSum `json:"queues"`
	Summary       struct {
		PushMessages int64 `json:"pushMessages"`
		PopMessages  int64 `json:"popMessages"`
		AckMessages  int64 `json:"ackMessages"`
		AckFailed    int64 `json:"ackFailed"`
		DBErrors     int64 `json:"dbErrors"`
		DLQCount     int64 `json:"dlqCount"`
	} `json:"summary"`
}

// WorkerMetrics reads the window of the whole cluster.
func (r *Reader) WorkerMetrics(ctx context.Context, w Window, f SeriesFilter) (*WorkerMetrics, error) {
	s := &Status{}
	if err := r.fillHistory(ctx, s, w, f); err != nil {
		return nil, err
	}
	points, err := r.series(ctx, w, f, false, false)
	if err != nil {
		return nil, err
	}
	m := &WorkerMetrics{
		TimeRange: w.timeRange(), BucketMinutes: w.Step, PointCount: len(points), TimeSeries: []WorkerPoint{}, Workers: s.Workers, Queues: []QueueLagSum{},
	}
	if m.Workers == nil {
		m.Workers = []Worker{}
	}
	rate := func(n int64) float64 { return round(float64(n) / w.seconds()) }
	for i := range points {
		p := &points[i]
		t := s.Throughput[min(i, len(s.Throughput)-1)]
		point := WorkerPoint{
			Timestamp: Bucket(p.Bucket), PushMessages: p.PushMessages, PopMessages: p.PopMessages, AckMessages: p.AckSuccess + p.AckFailed,
			PushRequests: p.PushRequests, PopRequests: p.PopRequests, AckRequests: p.AckRequests,
			JobsDone: p.PushRequests + p.PopRequests + p.AckRequests, PushPerSecond: rate(p.PushMessages), PopPerSecond: rate(p.PopMessages),
			AckPerSecond: rate(p.AckSuccess), DBConnections: t.DBPoolSize, LagCount: p.LagCount, DBErrors: t.DBErrors, AckSuccess: p.AckSuccess,
			AckFailed: p.AckFailed, DLQCount: p.DeadLetters,
		}
		point.AvgLagMs, point.MaxLagMs = lag(&p.QueueActivity)
		m.TimeSeries = append(m.TimeSeries, point)
		m.Summary.PushMessages, m.Summary.PopMessages = m.Summary.PushMessages+p.PushMessages, m.Summary.PopMessages+p.PopMessages
		m.Summary.AckMessages, m.Summary.AckFailed = m.Summary.AckMessages+point.AckMessages, m.Summary.AckFailed+p.AckFailed
		m.Summary.DLQCount += p.DeadLetters
	}
	m.Summary.DBErrors = s.Errors.DBErrors
	return m, r.sumLags(ctx, w, f, m)
}

func (r *Reader) sumLags(ctx context.Context, w Window, f SeriesFilter, m *WorkerMetrics) error {
	points, err := r.series(ctx, w, f, true, false)
	if err != nil {
		return err
	}
	sums := map[string]*pg.QueueActivity{}
	for i := range points {
		p := &points[i]
		sum := sums[p.Name]
		if sum == nil {
			sum = &pg.QueueActivity{}
			sums[p.Name] = sum
		}
		sum.PopRequests += p.PopRequests - p.PopEmpty
		sum.LagCount, sum.LagSumMillis = sum.LagCount+p.LagCount, sum.LagSumMillis+p.LagSumMillis
		sum.LagMaxMillis = max(sum.LagMaxMillis, p.LagMaxMillis)
	}
	for name, sum := range sums {
		q := QueueLagSum{QueueName: name, PopCount: sum.PopRequests}
		q.AvgLagMs, q.MaxLagMs = lag(sum)
		m.Queues = append(m.Queues, q)
	}
	slices.SortFunc(m.Queues, func(a, b QueueLagSum) int { return strings.Compare(a.QueueName, b.QueueName) })
	return nil
}

// Leaf describes a measure over a bucket. Brokers keep one value a minute, so that is what all four come from.
type Leaf struct {
	Avg  float64 `json:"avg"`
	Min  float64 `json:"min"`
	Max  float64 `json:"max"`
	Last float64 `json:"last"`
}

func leafOf(v float64) Leaf { return Leaf{v, v, v, v} }

// SystemPoint is a bucket of one broker.
type SystemPoint struct {
	Timestamp Bucket `json:"timestamp"`
	Metrics   struct {
		CPU struct {
			User   Leaf `json:"user_us"`
			System Leaf `json:"system_us"`
		} `json:"cpu"`
		Memory struct {
			RSS Leaf `json:"rss_bytes"`
		} `json:"memory"`
		Database struct {
			Size   Leaf `json:"pool_size"`
			Idle   Leaf `json:"pool_idle"`
			Active Leaf `json:"pool_active"`
		} `json:"database"`
	} `json:"metrics"`
}

// Replica is a broker in SystemMetrics.
type Replica struct {
	Hostname   string        `json:"hostname"`
	TimeSeries []SystemPoint `json:"timeSeries"`
}

// SystemMetrics is how brokers were in a window.
type SystemMetrics struct {
	TimeRange     TimeRange  `json:"timeRange"`
	BucketMinutes int        `json:"bucketMinutes"`
	PointCount    int        `json:"pointCount"`
	Replicas      []*Replica `json:"replicas"`
}

// SystemMetrics reads the window by broker.
func (r *Reader) SystemMetrics(ctx context.Context, w Window) (*SystemMetrics, error) {
	ctx, cancel := context.WithTimeout(ctx, queryTimeout)
	defer cancel()
	points, err := r.db.BrokerSeries(ctx, w.rows(SeriesFilter{}))
	if err != nil {
		return nil, failed("read brokers", err)
	}
	m := &SystemMetrics{TimeRange: w.timeRange(), BucketMinutes: w.Step, PointCount: len(points), Replicas: []*Replica{}}
	byName := map[string]*Replica{}
	for _, p := range points {
		replica := byName[p.Broker]
		if replica == nil {
			replica = &Replica{Hostname: p.Broker}
			byName[p.Broker] = replica
			m.Replicas = append(m.Replicas, replica)
		}
		point := SystemPoint{Timestamp: Bucket(p.Bucket)}
		point.Metrics.CPU.User, point.Metrics.CPU.System = leafOf(float64(p.CPUUser.Microseconds())), leafOf(float64(p.CPUSystem.Microseconds()))
		point.Metrics.Memory.RSS = leafOf(average(p.Memory, p.Samples))
		point.Metrics.Database.Size, point.Metrics.Database.Idle = leafOf(average(p.PoolSize, p.Samples)), leafOf(average(p.PoolIdle, p.Samples))
		point.Metrics.Database.Active = leafOf(average(p.PoolSize-p.PoolIdle, p.Samples))
		replica.TimeSeries = append(replica.TimeSeries, point)
	}
	slices.SortFunc(m.Replicas, func(a, b *Replica) int { return strings.Compare(a.Hostname, b.Hostname) })
	return m, nil
}

// Signature is a kind of reason: the text without what differs from one message to the next.
type Signature struct {
	Text  string  `json:"text"`
	N     int     `json:"n"`
	Share float64 `json:"share"`
}

// DeadLetterSignatures say what a queue's dead letters have in common.
type DeadLetterSignatures struct {
	Queue       string         `json:"queue"`
	RowsNow     int64          `json:"rowsNow"`
	Sample      int            `json:"sample"`
	RetryCounts map[string]int `json:"retryCounts"`
	Groups      map[string]int `json:"groups"`
	Oldest      Moment         `json:"oldest"`
	Newest      Moment         `json:"newest"`
	AvgBytes    float64        `json:"avgBytes"`
	Signatures  []Signature    `json:"signatures"`
	ByDay       map[string]int `json:"byDay"`
}

var varying = regexp.MustCompile(`[0-9a-fA-F]{8}-[0-9a-fA-F-]{27}|0x[0-9a-fA-F]+|[0-9]+`)

// DeadLetterSignatures looks at the newest dead letters of a queue, up to limit.
func (r *Reader) DeadLetterSignatures(ctx context.Context, tenant uuid.UUID, queue string, limit int) (*DeadLetterSignatures, error) {
	letters, err := r.DeadLetters(ctx, tenant, DeadLetterFilter{Queue: queue, Limit: limit})
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, queryTimeout)
	defer cancel()
	rows, err := r.db.ListQueues(ctx, tenant, &queue)
	if err != nil {
		return nil, failed("find queue", err)
	}
	var ids []int64
	for _, row := range rows {
		ids = append(ids, row.ID)
	}
	sums, err := r.db.SumDeadLetters(ctx, ids)
	if err != nil {
		return nil, failed("sum dead letters", err)
	}
	o := &DeadLetterSignatures{
		Queue: queue, RowsNow: sums.Rows, Sample: len(letters), RetryCounts: map[string]int{}, Groups: map[string]int{},
		Signatures: []Signature{}, ByDay: map[string]int{},
	}
	counts := map[string]int{}
	bytes := 0
	for i := range letters {
		l := &letters[i]
		counts[varying.ReplaceAllString(l.Error, "#")]++
		o.RetryCounts[strconv.Itoa(l.RetryCount)]++
		o.Groups[l.Group]++
		o.ByDay[l.FailedAt.UTC().Format("2006-01-02")]++
		bytes += len(l.Payload)
	}
	if n := len(letters); n > 0 {
		o.Newest, o.Oldest, o.AvgBytes = Moment(letters[0].FailedAt), Moment(letters[n-1].FailedAt), round(float64(bytes)/float64(n))
	}
	for text, n := range counts {
		o.Signatures = append(o.Signatures, Signature{text, n, round(float64(n) / float64(len(letters)))})
	}
	slices.SortFunc(o.Signatures, func(a, b Signature) int {
		if a.N != b.N {
			return b.N - a.N
		}
		return strings.Compare(a.Text, b.Text)
	})
	return o, nil
}

// PostgresStats is what the database server says of itself, as a JSON object.
func (r *Reader) PostgresStats(ctx context.Context) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, queryTimeout)
	defer cancel()
	object, err := r.db.PostgresStats(ctx)
	if err != nil {
		return nil, failed("read server statistics", err)
	}
	return object, nil
}
