package node

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"go.uber.org/zap"

	"waggle/broker/segment"
	"waggle/leader"
	"waggle/pg"
	"waggle/pg/schema"
)

// lease is how long the server keeps the lock of a leader that says nothing.
const lease = 10 * time.Second

// startCampaign lets this broker stand for leader, and do the background work while it leads.
func (n *Node) startCampaign() error {
	var err error
	n.elector, err = leader.New(leader.Config{
		Dial: func(ctx context.Context) (leader.Session, error) {
			// A nil *LeaderSession must not become a Session that is not nil.
			session, err := pg.DialLeader(ctx, pg.LeaderConfig{
				URL: n.db.DirectURL(), Name: n.config.Name, StartID: n.startID, ClusterID: n.installation.ClusterID,
				Lease: lease, Knows: pg.Knows{System: n.build.Knows, Record: n.build.RecordKnows},
			})
			if err != nil {
				return nil, err
			}
			return session, nil
		},
		Lead:      n.lead,
		Resigned:  n.sayLeaderLeft,
		NeverLead: n.config.NeverLead, Lease: lease, Logger: n.logger.Named("leader"), Registerer: n.registry,
	})
	if err != nil {
		return fmt.Errorf("leader: %w", err)
	}
	n.campaign = n.parts.start("leader", n.elector.Run)
	n.parts.undo("leader", n.campaign.stop)
	if n.mesh != nil {
		watch := n.parts.start("leader watch", n.watchLeader)
		n.parts.undo("leader watch", watch.stop)
	}
	return nil
}

func (n *Node) sayLeaderLeft() {
	if n.mesh != nil {
		n.mesh.SendLeaderHint()
	}
}

// lead is one reign: the jobs run until the context is cancelled.
func (n *Node) lead(ctx context.Context, term leader.Term) error {
	if n.mesh != nil {
		n.mesh.SetLeader(true)
		defer n.mesh.SetLeader(false)
	}
	fenced := n.db.Fenced(pg.Reign{Timeline: term.Timeline, Epoch: term.Epoch, StartID: n.startID})
	return n.runner.Run(ctx, fenced, n.jobs(fenced))
}

// jobs are what the leader does. Each is safe when it runs twice at once.
func (n *Node) jobs(fenced *pg.Fenced) []leader.Job {
	retention, statistics, records := fenced.Retention(), fenced.Statistics(), fenced.Records(segment.Reformat)
	warned := map[string]bool{}
	jobs := []leader.Job{
		{Name: "retention", Every: n.config.RetentionInterval, Batch: func(ctx context.Context) (int64, bool, error) {
			report, err := retention.Run(ctx)
			for queue, taken := range report.ByQueue {
				n.broker.NoteRemoved(queue, taken.Expired, taken.Completed, taken.Evicted, taken.Steps)
			}
			for _, skipped := range report.Skipped {
				if key := skipped.Tenant.String() + skipped.Queue; !warned[key] {
					warned[key] = true
					n.logger.Warn("queue keeps everything: this build does not understand its options", zap.String("code", "WG0206"),
						zap.String("queue", skipped.Queue), zap.String("reason", skipped.Reason))
				}
			}
			return report.Rows(), report.More, err
		}},
		{Name: "forget_ids", Every: time.Minute, Batch: retention.Forget},
		{Name: "purge", Every: 30 * time.Second, Batch: fenced.Purge},
		{Name: "registry", Every: rarely, Batch: fenced.CleanRegistry},
		{Name: "statistics", Every: n.config.StatsInterval, Batch: statistics.Batch},
		{Name: "roll_up", Every: 10 * time.Minute, Batch: fenced.RollUpMetrics},
		{Name: "metrics", Every: 10 * time.Minute, Batch: func(ctx context.Context) (int64, bool, error) {
			return fenced.CleanMetrics(ctx, n.config.MetricsRetention)
		}},
		{Name: "traces", Every: rarely, Batch: func(ctx context.Context) (int64, bool, error) {
			return fenced.CleanTraces(ctx, n.config.TraceRetention)
		}},
		{Name: "dead_letters", Every: rarely, Batch: func(ctx context.Context) (int64, bool, error) {
			return fenced.CleanDeadLetters(ctx, n.config.DeadLetterRetention)
		}},
		{Name: "leases", Every: rarely, Batch: fenced.CleanLeases},
		{Name: "indexes", Every: rarely, Timeout: time.Hour, Batch: n.indexes(fenced)},
		{Name: "records", Every: time.Minute, Batch: records.Run},
		n.rotationJob(fenced),
	}
	if idle := n.config.PartitionIdle; idle > 0 {
		partitions := fenced.Partitions()
		jobs = append(jobs, leader.Job{Name: "partitions", Every: time.Hour, Batch: func(ctx context.Context) (int64, bool, error) {
			return partitions.Clean(ctx, idle)
		}})
	}
	return jobs
}

// rarely is for what costs an idle cluster more than it gains by being done at once.
const rarely = 5 * time.Minute

// indexes builds what is missing. That cannot be done inside the fence: a leader that is none any more builds what the next one would.
func (n *Node) indexes(fenced *pg.Fenced) func(context.Context) (int64, bool, error) {
	told := false
	return func(ctx context.Context) (int64, bool, error) {
		absent, err := fenced.AbsentIndexes(ctx)
		if err != nil || len(absent) == 0 {
			return 0, false, err
		}
		built, err := schema.BuildIndexes(ctx, n.db.DirectURL(), n.logger)
		var rights *schema.RightsError
		if errors.As(err, &rights) {
			if !told {
				n.logger.Warn("an index is missing and this role may not build it", zap.String("code", "WG0060"),
					zap.String("index", rights.Index.Name), zap.String("sql", rights.Index.SQL), zap.Error(err))
			}
			told, err = true, nil
		}
		return built, false, err
	}
}

// leaderCache spares the database when many ask who leads.
type leaderCache struct {
	mu   sync.Mutex // guards what follows
	read time.Time
	row  *pg.Leader
}

const (
	leaderFresh   = 100 * time.Millisecond
	leaderTimeout = 2 * time.Second
)

// currentLeader is who leads as the database knows it; the last answer when it does not answer now.
func (n *Node) currentLeader() *pg.Leader {
	c := &n.leaders
	c.mu.Lock()
	defer c.mu.Unlock()
	if time.Since(c.read) < leaderFresh {
		return c.row
	}
	ctx, cancel := context.WithTimeout(context.Background(), leaderTimeout)
	defer cancel()
	row, err := n.db.ReadLeader(ctx, lease)
	if err != nil {
		n.logger.Warn("leader row not read", zap.String("code", "WG0103"), zap.Error(err))
		return c.row
	}
	c.read, c.row = time.Now(), row
	return row
}
