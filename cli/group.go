package cli

import (
	"context"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"time"

	"waggle/client"
)

// GroupCmd groups the commands about consumer groups.
type GroupCmd struct {
	List     GroupListCmd     `cmd:"" help:"List consumer groups and how far behind they are."`
	Lagging  GroupLaggingCmd  `cmd:"" help:"List partitions whose messages have waited for long."`
	Describe GroupDescribeCmd `cmd:"" help:"Show where a group stands in each partition."`
	Delete   GroupDeleteCmd   `cmd:"" help:"Forget where a group stands, and how it began."`
}

// GroupListCmd lists groups.
type GroupListCmd struct {
	Connection
	Output
	Queue string `arg:"" optional:"" help:"Only those on this queue."`
}

// Run implements the command.
func (c *GroupListCmd) Run(ctx context.Context, s *Session) error {
	cl, err := c.connect()
	if err != nil {
		return err
	}
	defer cl.Close()
	groups, err := cl.Groups(ctx)
	if err != nil {
		return fmt.Errorf("list groups: %w", err)
	}
	shown := make([]client.GroupSummary, 0, len(groups))
	for _, g := range groups {
		if c.Queue == "" || g.Queue == c.Queue {
			shown = append(shown, g)
		}
	}
	return c.print(s.Stdout, shown, func(w io.Writer) {
		rows := [][]string{{"GROUP", "QUEUE", "STATE", "PARTITIONS", "BEHIND", "LAG", "WAITING", "MODE"}}
		for _, g := range shown {
			rows = append(rows, []string{
				g.Name, g.Queue, g.State, number(g.Members), number(g.PartitionsWithLag), number(g.TotalLag),
				seconds(g.MaxTimeLag), orDash(g.SubscriptionMode),
			})
		}
		table(w, rows)
	})
}

func seconds(n float64) string {
	return time.Duration(n * float64(time.Second)).Round(time.Second).String()
}

// GroupLaggingCmd lists partitions that wait.
type GroupLaggingCmd struct {
	Connection
	Output
	MinLag time.Duration `default:"1m" help:"Only where the oldest message has waited for so long."`
}

// Run implements the command.
func (c *GroupLaggingCmd) Run(ctx context.Context, s *Session) error {
	cl, err := c.connect()
	if err != nil {
		return err
	}
	defer cl.Close()
	lagging, err := cl.Lagging(ctx, c.MinLag)
	if err != nil {
		return fmt.Errorf("list lagging partitions: %w", err)
	}
	if lagging == nil {
		lagging = []client.LaggingPartition{}
	}
	return c.print(s.Stdout, lagging, func(w io.Writer) {
		rows := [][]string{{"GROUP", "QUEUE", "PARTITION", "LAG", "WAITING"}}
		for _, l := range lagging {
			rows = append(rows, []string{l.Group, l.Queue, l.Partition, number(l.OffsetLag), seconds(l.TimeLagSeconds)})
		}
		table(w, rows)
	})
}

// GroupDescribeCmd describes one group.
type GroupDescribeCmd struct {
	Connection
	Output
	Group string `arg:"" help:"Group name; __QUEUE_MODE__ stands for pops without a group."`
}

// Run implements the command; a group that nobody knows is a failure.
func (c *GroupDescribeCmd) Run(ctx context.Context, s *Session) error {
	cl, err := c.connect()
	if err != nil {
		return err
	}
	defer cl.Close()
	queues, err := cl.Group(ctx, c.Group)
	if err != nil {
		return fmt.Errorf("describe group: %w", err)
	}
	if len(queues) == 0 {
		return fmt.Errorf("there is no group %q: `waggle group list` shows those that there are", c.Group)
	}
	return c.print(s.Stdout, queues, func(w io.Writer) {
		rows := [][]string{{"QUEUE", "PARTITION", "CONSUMED", "LAG", "WAITING", "LEASED"}}
		for _, queue := range slices.Sorted(maps.Keys(queues)) {
			for _, p := range queues[queue].Partitions {
				rows = append(rows, []string{
					queue, p.Partition, number(p.TotalConsumed), number(p.OffsetLag), seconds(p.TimeLagSeconds),
					strconv.FormatBool(p.LeaseActive),
				})
			}
		}
		table(w, rows)
	})
}

// GroupDeleteCmd deletes a group.
type GroupDeleteCmd struct {
	Connection
	Output
	Group            string `arg:"" help:"Group name."`
	Queue            string `help:"Only on this queue."`
	KeepRegistration bool   `help:"Keep how the group began: its next pop begins there again."`
}

// Run implements the command. Deleting what is not there succeeds, and says so.
func (c *GroupDeleteCmd) Run(ctx context.Context, s *Session) error {
	cl, err := c.connect()
	if err != nil {
		return err
	}
	defer cl.Close()
	got, err := cl.DeleteGroup(ctx, c.Group, c.Queue, !c.KeepRegistration)
	if err != nil {
		return fmt.Errorf("delete group: %w", err)
	}
	return c.print(s.Stdout, got, func(w io.Writer) {
		fmt.Fprintf(w, "deleted %s in %d partitions\n", c.Group, got.Partitions)
	})
}
