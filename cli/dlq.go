package cli

import (
	"context"
	"fmt"
	"io"

	"waggle/client"
)

// DLQCmd groups the commands about dead letters.
type DLQCmd struct {
	List   DLQListCmd   `cmd:"" help:"List dead letters, newest failure first."`
	Replay DLQReplayCmd `cmd:"" help:"Move dead letters back into their queue, or into another."`
	Delete DLQDeleteCmd `cmd:"" help:"Delete the dead letters of a queue."`
}

// DLQListCmd lists dead letters.
type DLQListCmd struct {
	Connection
	Output
	Queue  string `arg:"" optional:"" help:"Only those of this queue."`
	Group  string `help:"Only those of this consumer group."`
	Limit  int    `default:"100" help:"At most so many."`
	Offset int    `help:"Skip so many."`
}

// Run implements the command.
func (c *DLQListCmd) Run(ctx context.Context, s *Session) error {
	cl, err := c.connect()
	if err != nil {
		return err
	}
	defer cl.Close()
	letters, err := cl.DeadLetters(ctx, client.DeadLetterQuery{Queue: c.Queue, Group: c.Group, Limit: c.Limit, Offset: c.Offset})
	if err != nil {
		return fmt.Errorf("list dead letters: %w", err)
	}
	if letters == nil {
		letters = []client.DeadLetterMessage{}
	}
	return c.print(s.Stdout, letters, func(w io.Writer) {
		rows := [][]string{{"ID", "FAILED", "QUEUE", "PARTITION", "GROUP", "TRANSACTION", "RETRIES", "ERROR"}}
		for _, l := range letters {
			rows = append(rows, []string{
				l.ID, moment(l.FailedAt), l.Queue, l.Partition, l.Group, l.TransactionID, number(int64(l.RetryCount)), orDash(l.Error),
			})
		}
		table(w, rows)
	})
}

// DLQReplayCmd moves dead letters.
type DLQReplayCmd struct {
	Connection
	Output
	IDs       []string `arg:"" name:"id" help:"Ids of dead letters, as list shows them."`
	Queue     string   `help:"Move them into this queue instead of their own."`
	Partition string   `help:"Move them into this partition instead of their own."`
}

// Run implements the command. It goes on after a dead letter that cannot be moved, and fails in the end.
func (c *DLQReplayCmd) Run(ctx context.Context, s *Session) error {
	cl, err := c.connect()
	if err != nil {
		return err
	}
	defer cl.Close()
	moved := []client.Replayed{}
	failed := 0
	for _, id := range c.IDs {
		got, err := cl.ReplayDeadLetter(ctx, client.Replay{ID: id, Queue: c.Queue, Partition: c.Partition})
		if err != nil {
			failed++
			fmt.Fprintf(s.Stderr, "waggle: %s was not replayed: %s\n", id, err)
			continue
		}
		moved = append(moved, got)
	}
	err = c.print(s.Stdout, moved, func(w io.Writer) {
		for _, m := range moved {
			fmt.Fprintf(w, "%s %s to %s/%s as %s\n", m.DeadLetter, m.Result, m.Queue, m.Partition, m.ReplayedAs.MessageID)
		}
	})
	if err == nil && failed > 0 {
		return Fail(ExitFailed, nil)
	}
	return err
}

// DLQDeleteCmd deletes dead letters.
type DLQDeleteCmd struct {
	Connection
	Output
	Queue string `arg:"" help:"Queue name."`
	Group string `help:"Only those of this consumer group."`
}

// Run implements the command.
func (c *DLQDeleteCmd) Run(ctx context.Context, s *Session) error {
	cl, err := c.connect()
	if err != nil {
		return err
	}
	defer cl.Close()
	deleted, err := cl.DeleteDeadLetters(ctx, c.Queue, c.Group)
	if err != nil {
		return fmt.Errorf("delete dead letters: %w", err)
	}
	answer := struct {
		Queue   string `json:"queue"`
		Deleted int64  `json:"deleted"`
	}{c.Queue, deleted}
	return c.print(s.Stdout, answer, func(w io.Writer) {
		fmt.Fprintf(w, "deleted %d dead letters of %s\n", deleted, c.Queue)
	})
}
