package cli

import (
	"context"
	"fmt"
	"io"
	"time"

	"waggle/client"
)

// LeaderCmd groups the commands about the broker that does the background work.
type LeaderCmd struct {
	Status   LeaderStatusCmd   `cmd:"" help:"Show who leads, and how the jobs are."`
	StepDown LeaderStepDownCmd `cmd:"" help:"Make the leader resign, so that another broker leads."`
	Run      LeaderRunCmd      `cmd:"" help:"Make a job due now."`
	Enable   LeaderEnableCmd   `cmd:"" help:"Switch a job on."`
	Disable  LeaderDisableCmd  `cmd:"" help:"Switch a job off, for the whole cluster, until it is switched on."`
}

// LeaderStatusCmd shows the leader.
type LeaderStatusCmd struct {
	Connection
	Output
}

// Run implements the command.
func (c *LeaderStatusCmd) Run(ctx context.Context, s *Session) error {
	cl, err := c.connect()
	if err != nil {
		return err
	}
	defer cl.Close()
	status, err := cl.Leader(ctx)
	if err != nil {
		return fmt.Errorf("leader status: %w", err)
	}
	return c.print(s.Stdout, status, func(w io.Writer) {
		if status.Name == "" {
			fmt.Fprintln(w, "no broker leads at the moment")
		} else {
			fmt.Fprintf(w, "%s leads since %s, epoch %d\n", status.Name, momentOrDash(status.Since), status.Epoch)
		}
		if len(status.Jobs) == 0 {
			return
		}
		fmt.Fprintln(w)
		rows := [][]string{{"JOB", "ENABLED", "NEXT DUE", "LAST SUCCESS", "ROWS", "ALL ROWS", "ERROR"}}
		for _, j := range status.Jobs {
			enabled, failure := "yes", "-"
			if !j.Enabled {
				enabled = "no"
			}
			if j.LastError != nil {
				failure = *j.LastError
			}
			rows = append(rows, []string{
				j.Name, enabled, momentOrDash(j.NextDue), momentOrDash(j.LastSuccess), number(j.LastRows), number(j.RowsDone), failure,
			})
		}
		table(w, rows)
	})
}

func momentOrDash(t *time.Time) string {
	if t == nil {
		return "-"
	}
	return moment(*t)
}

// LeaderStepDownCmd makes the leader resign.
type LeaderStepDownCmd struct {
	Connection
	Output
}

const (
	successorPatience = 15 * time.Second
	successorPoll     = 100 * time.Millisecond
)

// Run implements the command. It waits until another broker leads.
func (c *LeaderStepDownCmd) Run(ctx context.Context, s *Session) error {
	cl, err := c.connect()
	if err != nil {
		return err
	}
	defer cl.Close()
	before, err := cl.Leader(ctx)
	if err != nil {
		return fmt.Errorf("leader status: %w", err)
	}
	name, err := cl.StepDown(ctx)
	if err != nil {
		return fmt.Errorf("step down: %w", err)
	}
	after, err := awaitSuccessor(ctx, cl, before.Epoch)
	if err != nil {
		return err
	}
	answer := struct {
		SteppedDown string `json:"steppedDown"`
		Leads       string `json:"leads"`
		Epoch       int64  `json:"epoch"`
	}{name, after.Name, after.Epoch}
	return c.print(s.Stdout, answer, func(w io.Writer) {
		fmt.Fprintf(w, "%s stepped down, %s leads, epoch %d\n", name, after.Name, after.Epoch)
	})
}

func awaitSuccessor(ctx context.Context, cl *client.Client, epoch int64) (client.LeaderStatus, error) {
	for began := time.Now(); ; {
		status, err := cl.Leader(ctx)
		switch {
		case err != nil:
			return status, fmt.Errorf("leader status: %w", err)
		case status.Name != "" && status.Epoch > epoch:
			return status, nil
		case time.Since(began) > successorPatience:
			return status, Fail(ExitFailed, fmt.Errorf("the leader stepped down and nobody leads after %v; do all brokers run with --never-lead?", successorPatience))
		}
		select {
		case <-ctx.Done():
			return status, context.Cause(ctx)
		case <-time.After(successorPoll):
		}
	}
}

// jobCommand is what the commands about one job have in common.
type jobCommand struct {
	Connection
	Output
	Job string `arg:"" help:"Job, as status lists it."`
}

func (c *jobCommand) do(ctx context.Context, s *Session, what string, call func(*client.Client) error) error {
	cl, err := c.connect()
	if err != nil {
		return err
	}
	defer cl.Close()
	if err := call(cl); err != nil {
		return fmt.Errorf("job %s: %w", c.Job, err)
	}
	answer := struct {
		Job  string `json:"job"`
		Done string `json:"done"`
	}{c.Job, what}
	return c.print(s.Stdout, answer, func(w io.Writer) { fmt.Fprintf(w, "job %s is %s\n", c.Job, what) })
}

// LeaderRunCmd makes a job due.
type LeaderRunCmd struct{ jobCommand }

// Run implements the command.
func (c *LeaderRunCmd) Run(ctx context.Context, s *Session) error {
	return c.do(ctx, s, "due now", func(cl *client.Client) error { return cl.RunJob(ctx, c.Job) })
}

// LeaderEnableCmd switches a job on.
type LeaderEnableCmd struct{ jobCommand }

// Run implements the command.
func (c *LeaderEnableCmd) Run(ctx context.Context, s *Session) error {
	return c.do(ctx, s, "switched on", func(cl *client.Client) error { return cl.SwitchJob(ctx, c.Job, true) })
}

// LeaderDisableCmd switches a job off.
type LeaderDisableCmd struct{ jobCommand }

// Run implements the command.
func (c *LeaderDisableCmd) Run(ctx context.Context, s *Session) error {
	return c.do(ctx, s, "switched off", func(cl *client.Client) error { return cl.SwitchJob(ctx, c.Job, false) })
}
