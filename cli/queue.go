package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"waggle/client"
)

// QueueCmd groups the commands about queues.
type QueueCmd struct {
	List      QueueListCmd      `cmd:"" help:"List queues, newest first."`
	Describe  QueueDescribeCmd  `cmd:"" help:"Show a queue's options and partitions."`
	Configure QueueConfigureCmd `cmd:"" help:"Create a queue or change its options."`
	Delete    QueueDeleteCmd    `cmd:"" help:"Delete a queue with all it holds."`
}

// QueueListCmd lists queues.
type QueueListCmd struct {
	Connection
	Output
}

// Run implements the command.
func (c *QueueListCmd) Run(ctx context.Context, s *Session) error {
	cl, err := c.connect()
	if err != nil {
		return err
	}
	defer cl.Close()
	queues, err := cl.Queues(ctx)
	if err != nil {
		return fmt.Errorf("list queues: %w", err)
	}
	if queues == nil {
		queues = []client.QueueSummary{}
	}
	return c.print(s.Stdout, queues, func(w io.Writer) {
		rows := [][]string{{"QUEUE", "NAMESPACE", "TASK", "PARTITIONS", "MESSAGES", "PENDING", "PROCESSING", "CREATED"}}
		for _, q := range queues {
			rows = append(rows, []string{
				q.Name, orDash(q.Namespace), orDash(q.Task), number(q.Partitions), number(q.Messages.Total),
				number(q.Messages.Pending), number(q.Messages.Processing), moment(q.CreatedAt),
			})
		}
		table(w, rows)
	})
}

// QueueDescribeCmd describes one queue.
type QueueDescribeCmd struct {
	Connection
	Output
	Queue string `arg:"" help:"Queue name."`
}

// Run implements the command.
func (c *QueueDescribeCmd) Run(ctx context.Context, s *Session) error {
	cl, err := c.connect()
	if err != nil {
		return err
	}
	defer cl.Close()
	q, err := cl.Queue(ctx, c.Queue)
	if err != nil {
		return fmt.Errorf("describe queue: %w", err)
	}
	return c.print(s.Stdout, q, func(w io.Writer) {
		table(w, [][]string{
			{"queue", q.Name},
			{"id", q.ID},
			{"namespace", orDash(q.Namespace)},
			{"task", orDash(q.Task)},
			{"created", moment(q.CreatedAt)},
			{"retained bytes", number(q.RetainedBytes)},
			{"segments", number(q.Segments.Segments)},
		})
		if len(q.Options) > 0 {
			fmt.Fprintln(w)
			table(w, optionRows(q.Options))
		}
		fmt.Fprintln(w)
		rows := [][]string{{"PARTITION", "MESSAGES", "PENDING", "PROCESSING", "COMPLETED", "DEAD", "NEWEST"}}
		for _, p := range q.Partitions {
			newest := "-"
			if p.NewestMessage != nil {
				newest = moment(*p.NewestMessage)
			}
			rows = append(rows, append(countCells(p.Name, p.Stats), newest))
		}
		table(w, append(rows, append(countCells("(all)", q.Totals), "")))
	})
}

func countCells(name string, c client.Counts) []string {
	return []string{name, number(c.Total), number(c.Pending), number(c.Processing), number(c.Completed), number(c.DeadLetter)}
}

func optionRows(options map[string]any) [][]string {
	var rows [][]string
	for _, name := range slices.Sorted(maps.Keys(options)) {
		value, err := json.Marshal(options[name])
		if err != nil {
			value = fmt.Append(nil, options[name])
		}
		rows = append(rows, []string{name, string(value)})
	}
	return rows
}

// QueueConfigureCmd sets options.
type QueueConfigureCmd struct {
	Connection
	Output
	Queue     string   `arg:"" help:"Queue name."`
	Options   []string `arg:"" optional:"" name:"option=value" help:"Options to set, such as leaseTime=30; without a value, back to the default."`
	Namespace *string  `help:"Namespace for discovery."`
	Task      *string  `help:"Task for discovery."`
	Replace   bool     `help:"Set all other options back to their defaults."`
	IfVersion int64    `help:"Only if the stored options have this version."`
}

// Run implements the command.
func (c *QueueConfigureCmd) Run(ctx context.Context, s *Session) error {
	options, err := parseOptions(c.Options)
	if err != nil {
		return err
	}
	cl, err := c.connect()
	if err != nil {
		return err
	}
	defer cl.Close()
	got, err := cl.Configure(ctx, client.Configuration{
		Queue: c.Queue, Namespace: c.Namespace, Task: c.Task, Options: options, Replace: c.Replace, IfVersion: c.IfVersion,
	})
	if err != nil {
		return fmt.Errorf("configure queue: %w", err)
	}
	if len(got.Ignored) > 0 {
		fmt.Fprintf(s.Stderr, "waggle: options this broker does not know were ignored: %s\n", strings.Join(got.Ignored, ", "))
	}
	return c.print(s.Stdout, got, func(w io.Writer) {
		table(w, append([][]string{
			{"queue", got.Queue},
			{"namespace", orDash(got.Namespace)},
			{"task", orDash(got.Task)},
			{"options version", number(got.OptionsVersion)},
		}, optionRows(got.Options)...))
	})
}

// parseOptions reads name=value pairs. A value is JSON where it parses as such, else text.
func parseOptions(pairs []string) (map[string]any, error) {
	options := make(map[string]any, len(pairs))
	for _, pair := range pairs {
		name, text, ok := strings.Cut(pair, "=")
		if !ok || name == "" {
			return nil, usageError("option %q is not of the form name=value", pair)
		}
		if _, twice := options[name]; twice {
			return nil, usageError("option %q is given twice", name)
		}
		if text == "" {
			options[name] = nil
			continue
		}
		if !json.Valid([]byte(text)) {
			options[name] = text
			continue
		}
		options[name] = json.RawMessage(text)
	}
	return options, nil
}

// QueueDeleteCmd deletes a queue.
type QueueDeleteCmd struct {
	Connection
	Output
	Queue string `arg:"" help:"Queue name."`
}

// Run implements the command. Deleting what is not there succeeds, and says so.
func (c *QueueDeleteCmd) Run(ctx context.Context, s *Session) error {
	cl, err := c.connect()
	if err != nil {
		return err
	}
	defer cl.Close()
	existed, err := cl.DeleteQueue(ctx, c.Queue)
	if err != nil {
		return fmt.Errorf("delete queue: %w", err)
	}
	answer := struct {
		Queue   string `json:"queue"`
		Existed bool   `json:"existed"`
	}{c.Queue, existed}
	return c.print(s.Stdout, answer, func(w io.Writer) {
		if existed {
			fmt.Fprintf(w, "deleted %s\n", c.Queue)
		} else {
			fmt.Fprintf(w, "there was no queue %s\n", c.Queue)
		}
	})
}
