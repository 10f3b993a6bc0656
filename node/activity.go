package node

import (
	"context"
	"os"
	"strconv"
	"strings"
	"syscall"
	"time"

	"go.uber.org/zap"

	"waggle/pg"
)

// activityTimeout bounds the writing of one minute's numbers.
const activityTimeout = 10 * time.Second

// writeActivity leaves what this broker did in the database, at every interval and once more at its end.
func (n *Node) writeActivity(ctx context.Context) error {
	ticker := time.NewTicker(n.config.MetricsFlush)
	defer ticker.Stop()
	meter := newMeter()
	for {
		select {
		case <-ctx.Done():
			n.flushActivity(context.WithoutCancel(ctx), meter)
			return nil
		case <-ticker.C:
			n.flushActivity(ctx, meter)
		}
	}
}

func (n *Node) flushActivity(ctx context.Context, meter *meter) {
	ctx, cancel := context.WithTimeout(ctx, activityTimeout)
	defer cancel()
	_ = n.broker.FlushTouched(ctx) // best effort: the statistics find what goes unsaid
	queues := n.broker.TakeActivity()
	self := meter.read()
	general, flushes := n.db.Stats()
	self.PoolSize = int64(general.TotalConns() + flushes.TotalConns())
	self.PoolIdle = int64(general.IdleConns() + flushes.IdleConns())
	self.DBErrors, self.Transactions = n.broker.TakeCounts()
	if err := n.db.WriteMetrics(ctx, n.config.Name, queues, self); err != nil {
		n.broker.GiveBackActivity(queues)
		n.broker.GiveBackCounts(self.DBErrors, self.Transactions)
		n.logger.Warn("what was done is not written, it will be with the next minute", zap.String("code", "WG0104"), zap.Error(err))
	}
}

// meter measures this process between two readings.
type meter struct {
	at           time.Time
	user, system time.Duration
}

func newMeter() *meter {
	m := &meter{at: time.Now()}
	m.user, m.system = processorTime()
	return m
}

func (m *meter) read() pg.BrokerActivity {
	now := time.Now()
	user, system := processorTime()
	a := pg.BrokerActivity{
		Samples: 1, CPUUser: user - m.user, CPUSystem: system - m.system, Elapsed: now.Sub(m.at), Memory: residentBytes(),
	}
	m.at, m.user, m.system = now, user, system
	return a
}

func processorTime() (user, system time.Duration) {
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		return 0, 0
	}
	return time.Duration(usage.Utime.Nano()), time.Duration(usage.Stime.Nano())
}

// residentBytes is the memory of this process as the kernel counts it, 0 where it does not say.
func residentBytes() int64 {
	text, err := os.ReadFile("/proc/self/statm")
	if err != nil {
		return 0
	}
	fields := strings.Fields(string(text))
	if len(fields) < 2 {
		return 0
	}
	pages, err := strconv.ParseInt(fields[1], 10, 64)
	if err != nil {
		return 0
	}
	return pages * int64(os.Getpagesize())
}
