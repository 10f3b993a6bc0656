package cli

import (
	"context"
	"fmt"
	"os"
	"slices"
	"time"

	"github.com/alecthomas/kong"

	"waggle/bench"
)

// BenchCmd groups the measurements.
type BenchCmd struct {
	Push        BenchWorkload `cmd:"" help:"Rows push1, push1wide and push100."`
	Drain       BenchWorkload `cmd:"" help:"Row drain100."`
	Live        BenchWorkload `cmd:"" help:"Rows live100 and live1."`
	Wake        BenchWorkload `cmd:"" help:"Row wake."`
	Autopilot   BenchWorkload `cmd:"" help:"Rows autopilot64, autopilot1 and autopilot16."`
	Transaction BenchWorkload `cmd:"" help:"Row move100."`
	Sparse      BenchWorkload `cmd:"" help:"Row sparse."`
	Budget      BenchWorkload `cmd:"" help:"All rows but those of autopilot, transaction and sparse."`
	NoStore     NoStoreCmd    `cmd:"" name:"no-store" hidden:"" help:"Serve the no-store yardstick until standard input ends."`
}

// BenchWorkload measures some rows of the budget. Which ones follows from the command's name.
type BenchWorkload struct {
	Output
	Brokers     []string      `sep:"," env:"-" help:"Broker URLs of a running cluster. Without these or --cluster, bench starts a dev cluster of its own."`
	DatabaseURL string        `help:"Database of the cluster given by --brokers, for the yardsticks on it."`
	Cluster     string        `type:"path" help:"cluster.json of a running dev cluster."`
	OwnBrokers  int           `default:"3" help:"Brokers of the cluster that bench starts."`
	Rows        []string      `sep:"," help:"Only these rows."`
	Rounds      int           `default:"5" help:"Rounds; each row is the median."`
	Side        time.Duration `default:"5s" help:"How long each side of a round counts."`
	WarmUp      time.Duration `default:"1s" help:"How long each side runs before it counts."`
	Records     int64         `default:"1000000" help:"How many messages a drain starts with."`
	Idle        int           `name:"idle-partitions" default:"99000" help:"Partitions that stand beside the active ones in the row sparse."`
	Ack         string        `enum:"each,last" default:"each" help:"Acknowledge each message of a batch, or only the last."`
}

// Help says what is compared with what.
func (c *BenchWorkload) Help() string {
	return `Each row is a ratio to a yardstick of the same machine in the same run: the same requests answered but not
stored, ready blobs inserted straight into the same PostgreSQL, one row updated. With --output json standard output
holds only the report; progress goes to standard error. The exit code is 0 when it measured, budget met or not.`
}

// Run implements the commands.
func (c *BenchWorkload) Run(ctx context.Context, s *Session, command *kong.Context) error {
	rows, err := c.rows(command.Selected().Name)
	if err != nil {
		return err
	}
	program, err := os.Executable()
	if err != nil {
		return fmt.Errorf("find own program: %w", err)
	}
	cluster, stop, err := c.cluster(ctx, s, program)
	if err != nil {
		return err
	}
	defer stop()
	report, err := bench.Run(ctx, cluster, bench.Config{
		Rows: rows, Rounds: c.Rounds, Side: c.Side, WarmUp: c.WarmUp, Records: c.Records, Idle: c.Idle, AckLast: c.Ack == "last",
		Program: program, Version: s.Version, Progress: s.Stderr,
	})
	if err != nil {
		return fmt.Errorf("bench: %w", err)
	}
	return c.print(s.Stdout, report, report.WriteText)
}

func (c *BenchWorkload) rows(workload string) ([]string, error) {
	switch {
	case c.Rounds < 1:
		return nil, usageError("--rounds %d: must be at least 1", c.Rounds)
	case c.Side < 100*time.Millisecond:
		return nil, usageError("--side %v: must be at least 100ms", c.Side)
	case c.Records < 1000:
		return nil, usageError("--records %d: must be at least 1000", c.Records)
	case c.Idle < 0:
		return nil, usageError("--idle-partitions %d: must be at least 0", c.Idle)
	case c.OwnBrokers < 1:
		return nil, usageError("--own-brokers %d: must be at least 1", c.OwnBrokers)
	case c.Cluster != "" && len(c.Brokers) > 0:
		return nil, usageError("--cluster and --brokers exclude each other")
	}
	all := bench.Workloads[workload]
	if len(c.Rows) == 0 {
		return all, nil
	}
	for _, row := range c.Rows {
		if !slices.Contains(all, row) {
			return nil, usageError("--rows %s: bench %s has the rows %v", row, workload, all)
		}
	}
	return c.Rows, nil
}

// cluster is the one that was named, or a new one that stop ends.
func (c *BenchWorkload) cluster(ctx context.Context, s *Session, program string) (bench.Cluster, func(), error) {
	switch {
	case c.Cluster != "":
		got, err := bench.LoadCluster(c.Cluster)
		return got, func() {}, err
	case len(c.Brokers) > 0:
		got := bench.Cluster{Postgres: c.DatabaseURL}
		for _, url := range c.Brokers {
			got.Brokers = append(got.Brokers, bench.Broker{HTTP: url})
		}
		return got, func() {}, nil
	}
	fmt.Fprintf(s.Stderr, "starting a cluster of %d brokers\n", c.OwnBrokers)
	own, err := bench.StartCluster(ctx, program, c.OwnBrokers)
	if err != nil {
		return bench.Cluster{}, nil, fmt.Errorf("start cluster: %w", err)
	}
	return own.Cluster, func() {
		if err := own.Stop(); err != nil {
			fmt.Fprintf(s.Stderr, "waggle: stop cluster: %v\n", err)
		}
	}, nil
}

// NoStoreCmd is what bench runs as a process of its own.
type NoStoreCmd struct{}

// Run implements the command.
func (c *NoStoreCmd) Run(ctx context.Context, s *Session) error {
	return bench.ServeNoStore(ctx, s.Stdin, s.Stdout)
}
