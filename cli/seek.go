package cli

import (
	"context"
	"fmt"
	"io"
	"time"

	"waggle/client"
)

// SeekCmd moves a group's cursors.
type SeekCmd struct {
	Connection
	Output
	Queue     string `arg:"" help:"Queue name."`
	Group     string `default:"__QUEUE_MODE__" help:"Consumer group; without it that of pops without a group."`
	Partition string `help:"Only this partition."`
	To        string `required:"" help:"beginning, end, a time such as 2031-04-05T06:07:08Z, or an age such as 2h."`
}

// Run implements the command.
func (c *SeekCmd) Run(ctx context.Context, s *Session) error {
	to, err := seekTarget(c.To, time.Now())
	if err != nil {
		return err
	}
	cl, err := c.connect()
	if err != nil {
		return err
	}
	defer cl.Close()
	moved, err := cl.Seek(ctx, client.SeekRequest{Group: c.Group, Queue: c.Queue, Partition: c.Partition, To: to})
	if err != nil {
		return fmt.Errorf("seek: %w", err)
	}
	answer := struct {
		Queue      string `json:"queue"`
		Group      string `json:"group"`
		Partitions int64  `json:"partitions"`
	}{c.Queue, c.Group, moved}
	return c.print(s.Stdout, answer, func(w io.Writer) {
		fmt.Fprintf(w, "moved %s on %s in %d partitions\n", c.Group, c.Queue, moved)
	})
}

// seekTarget reads the place to go to; nil is the end.
func seekTarget(text string, now time.Time) (*time.Time, error) {
	switch text {
	case "end", "now":
		return nil, nil
	case "beginning":
		at := time.Unix(0, 0)
		return &at, nil
	}
	if at, err := time.Parse(time.RFC3339Nano, text); err == nil {
		return &at, nil
	}
	if age, err := time.ParseDuration(text); err == nil && age > 0 {
		at := now.Add(-age)
		return &at, nil
	}
	return nil, usageError("--to %q is neither beginning, end, a time such as 2031-04-05T06:07:08Z nor an age such as 2h", text)
}
