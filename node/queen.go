package node

import (
	"context"
	"runtime/metrics"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"

	"waggle/api"
	"waggle/broker"
	"waggle/pg"
)

// queenCollector exports the families that dashboards of the compatible broker read. What it has and waggle has not is 0.
// It describes nothing: its queues come and go.
type queenCollector struct {
	node  *Node
	start time.Time

	mu      sync.Mutex // guards what follows
	read    time.Time
	known   bool // the database has answered once
	minutes []pg.QueueMinute
	totals  pg.ClusterTotals
	scraped time.Time
	before  broker.Batching // at the scrape before
}

const (
	// queenSeries bounds the queues that are exported by name; the others are one series, otherQueues.
	queenSeries = 1000
	otherQueues = "_other"
	queenFresh  = 15 * time.Second
	queenTime   = 2 * time.Second
)

// Describe implements prometheus.Collector.
func (*queenCollector) Describe(chan<- *prometheus.Desc) {}

// Collect implements prometheus.Collector.
func (c *queenCollector) Collect(out chan<- prometheus.Metric) {
	gauge, counter := prometheus.GaugeValue, prometheus.CounterValue
	send := func(kind prometheus.ValueType, name, help string, value float64, labels ...string) {
		var names, values []string
		for i := 0; i < len(labels); i += 2 {
			names, values = append(names, labels[i]), append(values, labels[i+1])
		}
		out <- prometheus.MustNewConstMetric(prometheus.NewDesc("queen_"+name, help, names, nil), kind, value, values...)
	}
	n, totals := c.node, c.node.broker.Totals()
	general, flushes := n.db.Stats()
	size, idle := float64(general.TotalConns()+flushes.TotalConns()), float64(general.IdleConns()+flushes.IdleConns())
	send(gauge, "uptime_seconds", "Seconds since this process began.", time.Since(c.start).Seconds())
	send(gauge, "event_loop_lag_avg_milliseconds", "Always 0: there is no event loop.", 0)
	send(gauge, "process_resident_memory_bytes", "Memory of this process.", float64(residentBytes()))
	send(gauge, "maintenance_mode_enabled", "Always 0: there is no push maintenance.", 0)
	send(gauge, "file_buffer_pending", "Always 0: there is no spool.", 0)
	send(gauge, "file_buffer_failed", "Always 0: there is no spool.", 0)
	send(gauge, "file_buffer_db_healthy", "Always 1: there is no spool.", 1)
	send(gauge, "db_pool_size", "Connections to the database.", size)
	send(gauge, "db_pool_idle", "Connections that are idle.", idle)
	send(gauge, "db_pool_active", "Connections at work.", size-idle)
	for _, kind := range []struct {
		name               string
		requests, messages int64
	}{
		{"push", totals.PushRequests, totals.PushMessages},
		{"pop", totals.PopRequests, totals.PopMessages},
		{"ack", totals.AckRequests, totals.AckMessages},
	} {
		send(counter, "process_"+kind.name+"_requests_total", "Requests of this process.", float64(kind.requests))
		send(counter, "process_"+kind.name+"_messages_total", "Messages of this process.", float64(kind.messages))
	}
	parked, shown, rest := n.broker.ParkedByName(), 0, int64(0)
	for queue, waiting := range parked {
		if shown++; shown > queenSeries {
			rest += waiting
			continue
		}
		send(gauge, "parked_long_polls", "Pops that wait here.", float64(waiting), "queue", queue)
	}
	if rest > 0 {
		send(gauge, "parked_long_polls", "Pops that wait here.", float64(rest), "queue", otherQueues)
	}
	c.batching(send)
	minutes, cluster, known := c.lastMinute()
	if known {
		sendTotals(send, &cluster)
	}
	letters := 0.0
	for i := range minutes {
		m := &minutes[i]
		queue := m.Name
		if queue == "" {
			queue = otherQueues
		}
		letters += float64(m.Letters)
		each := func(name, help string, value int64, labels ...string) {
			send(gauge, name, help, float64(value), append([]string{"queue", queue}, labels...)...)
		}
		each("dlq_depth_by_queue", "Dead letters.", m.Letters)
		each("queue_push_messages_per_minute", "Of the last whole minute, of all brokers.", m.PushMessages)
		each("queue_push_requests_per_minute", "Of the last whole minute, of all brokers.", m.PushRequests)
		each("queue_pop_messages_per_minute", "Of the last whole minute, of all brokers.", m.PopMessages)
		each("queue_pop_empty_per_minute", "Of the last whole minute, of all brokers.", m.PopEmpty)
		each("queue_conflated_per_minute", "Of the last whole minute, of all brokers.", m.Conflated)
		each("queue_transactions_per_minute", "Of the last whole minute, of all brokers.", m.Transactions)
		each("queue_ack_per_minute", "Of the last whole minute, of all brokers.", m.AckSuccess, "result", "success")
		each("queue_ack_per_minute", "Of the last whole minute, of all brokers.", m.AckFailed, "result", "failed")
		each("queue_parked_consumers", "Pops that waited at the end of the last whole minute.", m.Parked)
		send(gauge, "queue_metrics_age_seconds", "How old the numbers of the queue are.", m.Age, "queue", queue)
		if m.LagCount > 0 {
			send(gauge, "queue_pop_lag_milliseconds", "How old messages were when they were popped.", float64(m.LagSumMillis)/float64(m.LagCount), "queue", queue, "stat", "avg")
			each("queue_pop_lag_milliseconds", "How old messages were when they were popped.", m.LagMaxMillis, "stat", "max")
		}
	}
	if known {
		send(gauge, "dlq_depth", "Dead letters of the cluster.", letters, "scope", "cluster")
	}
}

// sender exports one number; labels are names and values in turn.
type sender func(kind prometheus.ValueType, name, help string, value float64, labels ...string)

// batching exports how calls share flushes. What the compatible broker calls a train is a flush here, and it holds one
// transaction; rates are those since the scrape before.
func (c *queenCollector) batching(send sender) {
	gauge, counter := prometheus.GaugeValue, prometheus.CounterValue
	now, at := c.node.broker.Batching(), time.Now()
	c.mu.Lock()
	before, span := c.before, at.Sub(c.scraped)
	c.before, c.scraped = now, at
	c.mu.Unlock()
	for _, op := range now.Ops {
		send(counter, "batches_fired_total", "Flushes that carried calls of the kind.", float64(op.Batches), "op", op.Op)
		send(counter, "batch_items_fired_total", "Messages, pops or acknowledgements that they carried.", float64(op.Items), "op", op.Op)
		send(gauge, "fusion_items_per_batch", "How many one flush carries on average.", float64(op.Items)/float64(max(op.Batches, 1)), "op", op.Op)
	}
	send(counter, "pop_fill_wait_total", "Pops that waited for a fuller batch.", float64(now.FillWaits))
	send(counter, "pop_fill_wait_microseconds_total", "How long they waited.", float64(now.FillWait.Microseconds()))
	send(counter, "pop_targeted_total", "Pops of one named partition.", float64(now.Targeted))
	send(counter, "pop_wildcard_total", "Pops of any partition.", float64(now.Wildcard))
	flushes := now.Flushes - before.Flushes
	send(gauge, "admission_budget", "Lanes: flushes that may be on their way at once.", float64(now.Lanes))
	send(gauge, "admission_inflight", "Flushes on their way.", float64(now.InFlight))
	send(gauge, "admission_waiting", "Calls that wait for the next flush.", float64(now.Waiting))
	send(gauge, "admission_cycle_ms", "How long a flush took on average.", float64((now.FlushTime-before.FlushTime).Microseconds())/1000/float64(max(flushes, 1)))
	send(gauge, "admission_trains_per_s", "Flushes a second.", float64(flushes)/span.Seconds())
	send(gauge, "admission_txn_per_train", "Always 1: a flush is one transaction.", 1)
}

func sendTotals(send sender, t *pg.ClusterTotals) {
	for _, total := range []struct {
		name, help string
		value      int64
		labels     []string
	}{
		{"push_requests", "Requests of all brokers.", t.PushRequests, nil},
		{"push_messages", "Messages of all brokers.", t.PushMessages, nil},
		{"pop_requests", "Requests of all brokers.", t.PopRequests, nil},
		{"pop_messages", "Messages of all brokers.", t.PopMessages, nil},
		{"ack_requests", "Requests of all brokers.", t.AckRequests, nil},
		{"ack_messages", "Messages of all brokers.", t.AckSuccess + t.AckFailed, nil},
		{"ack", "Acknowledged messages by result.", t.AckSuccess, []string{"result", "success"}},
		{"ack", "Acknowledged messages by result.", t.AckFailed, []string{"result", "failed"}},
		{"db_errors", "Flushes that the database did not take.", t.DBErrors, nil},
		{"dlq", "Messages dead-lettered.", t.DeadLetters, nil},
		{"transactions", "Transactions that were committed.", t.Transactions, nil},
	} {
		send(prometheus.CounterValue, "cluster_"+total.name+"_total", total.help, float64(total.value), append([]string{"scope", "cluster"}, total.labels...)...)
	}
}

// lastMinute is what the database says, at most queenFresh old; known is false while it never answered.
func (c *queenCollector) lastMinute() (minutes []pg.QueueMinute, totals pg.ClusterTotals, known bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if time.Since(c.read) < queenFresh {
		return c.minutes, c.totals, c.known
	}
	ctx, cancel := context.WithTimeout(context.Background(), queenTime)
	defer cancel()
	minutes, err := c.node.db.QueueMinutes(ctx, queenSeries)
	if err == nil {
		totals, err = c.node.db.ClusterTotals(ctx)
	}
	c.read = time.Now() // also after a failure: a scrape must not wait for a dead database each time
	if err != nil {
		c.node.logger.Warn("metrics of queues not read; the last ones are shown", zap.String("code", "WG0105"), zap.Error(err))
	} else {
		c.minutes, c.totals, c.known = minutes, totals, true
	}
	return c.minutes, c.totals, c.known
}

// ProcessMetrics implements api.Process.
func (c *queenCollector) ProcessMetrics() api.ProcessMetrics {
	totals := c.node.broker.Totals()
	general, flushes := c.node.db.Stats()
	samples := []metrics.Sample{{Name: "/memory/classes/total:bytes"}, {Name: "/memory/classes/heap/objects:bytes"}}
	metrics.Read(samples)
	user, system := processorTime()
	return api.ProcessMetrics{
		Uptime: time.Since(c.start), Requests: totals.PushRequests + totals.PopRequests + totals.AckRequests,
		Messages: totals.PushMessages + totals.PopMessages + totals.AckMessages,
		PoolSize: int64(general.TotalConns() + flushes.TotalConns()), PoolIdle: int64(general.IdleConns() + flushes.IdleConns()),
		Resident: residentBytes(), HeapTotal: int64(samples[0].Value.Uint64()), HeapUsed: int64(samples[1].Value.Uint64()),
		CPUUser: user, CPUSystem: system,
	}
}
