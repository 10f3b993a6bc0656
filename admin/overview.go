package admin

import (
	"context"
	"math"
	"slices"
	"time"

	"github.com/google/uuid"

	"waggle/pg"
)

// CountedQueue is a queue with its sums.
type CountedQueue struct {
	pg.ListedQueue
	pg.MessageCounts
	id uuid.UUID
}

// counted returns the queues of a tenant (nil: of all) with the counters of the last statistics pass, and the age of these
// in seconds, -1 when there has been none.
func (r *Reader) counted(ctx context.Context, tenant *uuid.UUID) ([]CountedQueue, float64, error) {
	var rows []pg.ListedQueue
	var err error
	if tenant == nil {
		rows, err = r.db.ListAllQueues(ctx)
	} else {
		rows, err = r.db.ListQueues(ctx, *tenant, nil)
	}
	if err != nil {
		return nil, 0, failed("list queues", err)
	}
	ids := make([]int64, len(rows))
	queues := make([]CountedQueue, len(rows))
	at := make(map[int64]int, len(rows))
	for i, row := range rows {
		ids[i], at[row.ID] = row.ID, i
		queues[i] = CountedQueue{ListedQueue: row, id: r.ids.Queue(row.ID)}
	}
	counts, err := r.db.QueueCounts(ctx, ids)
	if err != nil {
		return nil, 0, failed("read counters", err)
	}
	for _, c := range counts {
		queues[at[c.Queue]].MessageCounts = pg.MessageCounts{
			Queue: c.Queue, Partitions: c.Partitions, Segments: c.Segments, Messages: c.Messages, Bytes: c.Bytes, Pending: c.Pending,
			Processing: c.Processing, Completed: max(c.Messages-c.Pending-c.Processing, 0),
		}
	}
	letters, err := r.db.CountDeadLetters(ctx, ids)
	if err != nil {
		return nil, 0, failed("count dead letters", err)
	}
	for queue, n := range letters {
		queues[at[queue]].DeadLetter = n
	}
	age, err := r.db.StatisticsAge(ctx)
	if err != nil {
		return nil, 0, failed("read age of counters", err)
	}
	return queues, math.Round(age*1000) / 1000, nil
}

// Refreshed is what a forced count found.
type Refreshed struct {
	Success       bool   `json:"success"`
	Engine        string `json:"engine"`
	Queues        int    `json:"queues"`
	SegPartitions int64  `json:"segPartitions"`
	Segments      int64  `json:"segments"`
	Messages      int64  `json:"messages"`
	Counted       int64  `json:"partitionsCounted"`
	DurationMs    int64  `json:"durationMs"`
}

// Refresh runs a statistics pass now, beside that of the leader.
func (r *Reader) Refresh(ctx context.Context) (Refreshed, error) {
	ctx, cancel := context.WithTimeout(ctx, queryTimeout)
	defer cancel()
	began := time.Now()
	report, err := r.db.Statistics().Refresh(ctx)
	if err != nil {
		return Refreshed{}, failed("refresh statistics", err)
	}
	queues, _, err := r.counted(ctx, nil)
	if err != nil {
		return Refreshed{}, err
	}
	out := Refreshed{Success: true, Engine: "segments", Queues: len(queues), Counted: report.Counted}
	for _, q := range queues {
		out.SegPartitions, out.Segments, out.Messages = out.SegPartitions+q.Partitions, out.Segments+q.Segments, out.Messages+q.Messages
	}
	out.DurationMs = time.Since(began).Milliseconds()
	return out, nil
}

// MessageTotals are sums over queues; failed counts nothing, as in Counts.
type MessageTotals struct {
	Total      int64 `json:"total"`
	Pending    int64 `json:"pending"`
	Processing int64 `json:"processing"`
	Completed  int64 `json:"completed"`
	Failed     int64 `json:"failed"`
	DeadLetter int64 `json:"deadLetter"`
}

func (t *MessageTotals) add(n *pg.MessageCounts) {
	t.Total += n.Messages
	t.Pending += n.Pending
	t.Processing += n.Processing
	t.Completed += n.Completed
	t.DeadLetter += n.DeadLetter
}

// Spread describes numbers.
type Spread struct {
	Avg    float64 `json:"avg"`
	Median float64 `json:"median"`
	Min    float64 `json:"min"`
	Max    float64 `json:"max"`
}

func spreadOf(values []float64) (s Spread) {
	if len(values) == 0 {
		return s
	}
	slices.Sort(values)
	sum := 0.0
	for _, v := range values {
		sum += v
	}
	n := len(values)
	s = Spread{Avg: sum / float64(n), Median: values[n/2], Min: values[0], Max: values[n-1]}
	if n%2 == 0 {
		s.Median = (values[n/2-1] + values[n/2]) / 2
	}
	return s
}

// Overview is one look at all a tenant has.
type Overview struct {
	Queues     int           `json:"queues"`
	Partitions int64         `json:"partitions"`
	Namespaces int           `json:"namespaces"`
	Tasks      int           `json:"tasks"`
	Messages   MessageTotals `json:"messages"`
	Lag        struct {
		Time   Spread `json:"time"`
		Offset Spread `json:"offset"`
	} `json:"lag"`
	Throughput struct {
		IngestedPerSecond  float64 `json:"ingestedPerSecond"`
		ProcessedPerSecond float64 `json:"processedPerSecond"`
	} `json:"throughput"`
	Timestamp Moment `json:"timestamp"`
	// StatsAge is how old the counts are, in seconds.
	StatsAge float64 `json:"statsAge"`
}

// throughputWindow is what the rates of an overview are taken over.
const throughputWindow = 5 * time.Minute

// Overview sums a tenant up. Lag is that of its groups on its queues: seconds and messages.
func (r *Reader) Overview(ctx context.Context, tenant uuid.UUID) (Overview, error) {
	ctx, cancel := context.WithTimeout(ctx, queryTimeout)
	defer cancel()
	queues, age, err := r.counted(ctx, &tenant)
	if err != nil {
		return Overview{}, err
	}
	o := Overview{Queues: len(queues), Timestamp: Moment(time.Now()), StatsAge: age}
	namespaces, tasks := map[string]bool{}, map[string]bool{}
	for i := range queues {
		q := &queues[i]
		o.Partitions += q.Partitions
		o.Messages.add(&q.MessageCounts)
		namespaces[q.Namespace], tasks[q.Task] = true, true
	}
	o.Namespaces, o.Tasks = len(namespaces), len(tasks)
	groups, err := r.Groups(ctx, tenant)
	if err != nil {
		return Overview{}, err
	}
	var times, offsets []float64
	for i := range groups {
		times, offsets = append(times, round(groups[i].TimeLag.Seconds())), append(offsets, float64(groups[i].Lag))
	}
	o.Lag.Time, o.Lag.Offset = spreadOf(times), spreadOf(offsets)
	now := time.Now()
	series, err := r.db.QueueSeries(ctx, pg.SeriesFilter{
		Minutes: 1, Step: 1, From: now.Add(-throughputWindow), To: now.Add(time.Minute), Tenant: &tenant,
	})
	if err != nil {
		return Overview{}, failed("read throughput", err)
	}
	for _, p := range series {
		o.Throughput.IngestedPerSecond += float64(p.PushMessages) / throughputWindow.Seconds()
		o.Throughput.ProcessedPerSecond += float64(p.AckSuccess) / throughputWindow.Seconds()
	}
	return o, nil
}

// Label sums the queues of one namespace or task.
type Label struct {
	Name       string
	Queues     int
	Partitions int64
	Total      int64
	Pending    int64
}

// Labels sums the tenant's queues up by namespace, or by task, in the order of the names.
func (r *Reader) Labels(ctx context.Context, tenant uuid.UUID, byTask bool) ([]Label, error) {
	ctx, cancel := context.WithTimeout(ctx, queryTimeout)
	defer cancel()
	queues, _, err := r.counted(ctx, &tenant)
	if err != nil {
		return nil, err
	}
	byName := map[string]*Label{}
	var out []*Label
	for i := range queues {
		q := &queues[i]
		name := q.Namespace
		if byTask {
			name = q.Task
		}
		l := byName[name]
		if l == nil {
			l = &Label{Name: name}
			byName[name] = l
			out = append(out, l)
		}
		l.Queues++
		l.Partitions += q.Partitions
		l.Total += q.Messages
		l.Pending += q.Pending
	}
	slices.SortFunc(out, func(a, b *Label) int {
		if a.Name < b.Name {
			return -1
		}
		return 1
	})
	labels := make([]Label, len(out))
	for i, l := range out {
		labels[i] = *l
	}
	return labels, nil
}
