package cli

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"

	"waggle/client"
)

// createdAtLayout is the wire's: six decimals, always.
const createdAtLayout = "2006-01-02T15:04:05.000000Z"

// ackPatience is how long an interrupted pop may still take to acknowledge what it has written.
const ackPatience = 10 * time.Second

// followPause is the time between tries while no broker answers.
const followPause = time.Second

// PopCmd takes messages and writes them as JSON lines.
type PopCmd struct {
	Connection
	Queue      string        `arg:"" help:"Queue name."`
	Group      string        `help:"Consumer group; none means queue mode, where each message goes to one consumer."`
	Partition  string        `help:"Only this partition."`
	Batch      int           `default:"100" help:"At most so many messages a call."`
	Partitions int           `help:"Claim at most so many partitions a call; 0 means no cap."`
	Wait       bool          `help:"Wait for messages when there are none."`
	Timeout    time.Duration `default:"30s" help:"How long to wait."`
	Follow     bool          `short:"f" help:"Go on until interrupted; implies --wait."`
	Ack        bool          `negatable:"" help:"Acknowledge messages once they are written and flushed. Without it they come again when their lease ends."`
	AutoAck    bool          `help:"Let the broker acknowledge while it answers: at most once, a lost answer is lost."`
	Lease      time.Duration `help:"Lease time instead of the queue's, in whole seconds."`
	From       string        `env:"-" help:"Where a new group starts: all, new, or an RFC 3339 time."`
	Limit      int           `help:"Go on until there were so many messages."`
	DataOnly   bool          `help:"Write only the payloads."`
}

// popLine is one line of output; ack reads it back.
type popLine struct {
	Queue           string          `json:"queue"`
	Partition       string          `json:"partition"`
	PartitionID     string          `json:"partitionId"`
	ID              string          `json:"id"`
	TransactionID   string          `json:"transactionId"`
	Group           string          `json:"group"`
	LeaseID         string          `json:"leaseId,omitempty"`
	DeliveryAttempt int             `json:"deliveryAttempt"`
	CreatedAt       string          `json:"createdAt"`
	TraceID         string          `json:"traceId,omitempty"`
	ProducerSub     string          `json:"producerSub,omitempty"`
	Data            json.RawMessage `json:"data"`
}

// Help explains the output.
func (c *PopCmd) Help() string {
	return `Each line is one compact JSON object: queue, partition, partitionId, id, transactionId, group, leaseId,
deliveryAttempt, createdAt, data. "waggle ack" reads such lines. By itself pop makes one call; with --limit it goes on
until it has so many messages or there is nothing more to take, with --follow until it is interrupted. Nothing to take
is success.`
}

// Run implements the command.
func (c *PopCmd) Run(ctx context.Context, s *Session) error {
	request, err := c.request()
	if err != nil {
		return err
	}
	cl, err := c.connect()
	if err != nil {
		return err
	}
	defer cl.Close()
	p := &popper{command: c, client: cl, out: bufio.NewWriterSize(s.Stdout, 1<<16), stderr: s.Stderr}
	if err := p.run(ctx, request); err != nil {
		return err
	}
	if p.unacknowledged > 0 {
		return fmt.Errorf("%d messages were written but not acknowledged; they come again", p.unacknowledged)
	}
	return nil
}

func (c *PopCmd) request() (client.PopRequest, error) {
	r := client.PopRequest{
		Queue: c.Queue, Partition: c.Partition, Group: c.Group, Batch: c.Batch, Partitions: c.Partitions,
		Wait: c.Wait || c.Follow, Timeout: c.Timeout, AutoAck: c.AutoAck, Lease: c.Lease,
	}
	if c.Partitions == 0 {
		r.Partitions = -1
	}
	switch {
	case c.Queue == "":
		return r, usageError("queue must not be empty")
	case c.Batch < 1:
		return r, usageError("--batch %d: must be at least 1", c.Batch)
	case c.Limit < 0:
		return r, usageError("--limit %d: must not be negative", c.Limit)
	case c.Ack && c.AutoAck:
		return r, usageError("--ack and --auto-ack exclude each other")
	case c.From != "" && c.Group == "":
		return r, usageError("--from needs --group: queue mode always starts at the first message")
	}
	switch c.From {
	case "":
	case "all", "new":
		r.Mode = c.From
	default:
		if _, err := time.Parse(time.RFC3339, c.From); err != nil {
			return r, usageError("--from %q: must be all, new, or a time such as 2031-04-05T06:07:08Z", c.From)
		}
		r.From = c.From
	}
	return r, nil
}

// popper is one run of the command.
type popper struct {
	command        *PopCmd
	client         *client.Client
	out            *bufio.Writer
	stderr         io.Writer
	written        int
	unacknowledged int
	// complained keeps an outage to one line.
	complained bool
	buffer     bytes.Buffer
}

func (p *popper) run(ctx context.Context, request client.PopRequest) error {
	limit := p.command.Limit
	once := limit == 0 && !p.command.Follow
	for limit == 0 || p.written < limit {
		if limit > 0 {
			request.Batch = min(p.command.Batch, limit-p.written)
		}
		got, err := p.client.Pop(ctx, request)
		switch {
		case ctx.Err() != nil:
			return nil
		case err != nil:
			if !p.command.Follow || !p.sitOut(ctx, err) {
				return fmt.Errorf("pop: %w", err)
			}
			continue
		case got == nil:
			p.complained = false
			if !p.command.Follow {
				return nil
			}
			continue
		}
		p.complained = false
		if err := p.deliver(ctx, got); err != nil || once {
			return err
		}
	}
	return nil
}

// sitOut waits while a follower cannot reach any broker; false means that err is not that kind of failure.
func (p *popper) sitOut(ctx context.Context, err error) bool {
	var unreachable *client.UnreachableError
	var lost *client.LostAnswerError
	if !errors.As(err, &unreachable) && !errors.As(err, &lost) {
		return false
	}
	if !p.complained || lost != nil {
		fmt.Fprintf(p.stderr, "waggle: pop: %v; trying on\n", err)
		p.complained = true
	}
	select {
	case <-ctx.Done():
	case <-time.After(followPause):
	}
	return true
}

// deliver writes an answer and, only when all of it has left this process, acknowledges it.
func (p *popper) deliver(ctx context.Context, got *client.PopAnswer) error {
	for _, m := range got.Messages {
		if err := p.write(got, m); err != nil {
			return fmt.Errorf("write message: %w", err)
		}
	}
	if err := p.out.Flush(); err != nil {
		return fmt.Errorf("write messages: %w", err)
	}
	p.written += len(got.Messages)
	if !p.command.Ack {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), ackPatience)
	defer cancel()
	results, err := p.client.AckBatch(ctx, p.command.Group, got.Completed())
	if err != nil {
		p.unacknowledged += len(got.Messages)
		if p.command.Follow {
			fmt.Fprintf(p.stderr, "waggle: acknowledge: %v; trying on\n", err)
			return nil
		}
		return fmt.Errorf("acknowledge: %w", err)
	}
	refused, reason := 0, ""
	for _, r := range results {
		if !r.Success {
			refused++
			reason = r.Error
		}
	}
	if refused > 0 {
		p.unacknowledged += refused
		fmt.Fprintf(p.stderr, "waggle: %d messages were not acknowledged: %s\n", refused, reason)
	}
	return nil
}

func (p *popper) write(got *client.PopAnswer, m client.Message) error {
	data := m.Data
	if data == nil {
		data = json.RawMessage("null")
	}
	p.buffer.Reset()
	if p.command.DataOnly {
		if err := json.Compact(&p.buffer, data); err != nil {
			return err
		}
		p.buffer.WriteByte('\n')
	} else if err := writeJSON(&p.buffer, popLine{
		Queue: got.Queue, Partition: m.Partition, PartitionID: m.PartitionID, ID: m.ID, TransactionID: m.TransactionID,
		Group: m.Group, LeaseID: m.LeaseID, DeliveryAttempt: m.DeliveryAttempt,
		CreatedAt: m.CreatedAt.UTC().Format(createdAtLayout), TraceID: m.TraceID, ProducerSub: m.ProducerSub, Data: data,
	}, ""); err != nil {
		return err
	}
	_, err := p.out.Write(p.buffer.Bytes())
	return err
}
