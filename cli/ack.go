package cli

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"waggle/client"
)

// ackBatch is how many messages one call acknowledges.
const ackBatch = 1000

// AckCmd acknowledges messages.
type AckCmd struct {
	Connection
	Output
	TransactionIDs []string `arg:"" optional:"" name:"transaction-id" help:"Messages to acknowledge. Without any, standard input is read: lines as pop writes them."`
	PartitionID    string   `help:"Partition id of the messages given by id."`
	Lease          string   `help:"Lease id of the messages given by id. Without one the ack is not checked against a lease."`
	Group          string   `help:"Consumer group of the messages given by id; none means queue mode."`
	Status         string   `enum:"completed,failed,retry,dlq" default:"completed" help:"completed, failed (charges the retry budget), retry (does not) or dlq."`
	Error          string   `help:"Reason of a failure, kept with a dead letter."`
}

// ackReport is the answer of the command.
type ackReport struct {
	Acknowledged int `json:"acknowledged"`
	Refused      int `json:"refused"`
	DeadLettered int `json:"deadLettered"`
}

// Run implements the command; it fails when any acknowledgement was refused.
func (c *AckCmd) Run(ctx context.Context, s *Session) error {
	if len(c.TransactionIDs) > 0 && c.PartitionID == "" {
		return usageError("--partition-id is needed for messages given by id")
	}
	cl, err := c.connect()
	if err != nil {
		return err
	}
	defer cl.Close()
	var got ackReport
	send := func(group string, acks []client.Ack) error { return c.send(ctx, s, cl, group, acks, &got) }
	if len(c.TransactionIDs) > 0 {
		acks := make([]client.Ack, len(c.TransactionIDs))
		for i, id := range c.TransactionIDs {
			acks[i] = c.ack(id, c.PartitionID, c.Lease)
		}
		err = send(c.Group, acks)
	} else {
		err = c.readLines(s.Stdin, send)
	}
	if err != nil {
		return err
	}
	if err := c.print(s.Stdout, got, func(w io.Writer) {
		fmt.Fprintf(w, "acknowledged %d, refused %d, dead-lettered %d\n", got.Acknowledged, got.Refused, got.DeadLettered)
	}); err != nil {
		return err
	}
	if got.Refused > 0 {
		return Fail(ExitFailed, nil)
	}
	return nil
}

func (c *AckCmd) ack(transactionID, partitionID, lease string) client.Ack {
	return client.Ack{
		TransactionID: transactionID, PartitionID: partitionID, LeaseID: lease, Status: client.AckStatus(c.Status), Error: c.Error,
	}
}

// readLines collects runs of one group, as the contract acknowledges one group a call.
func (c *AckCmd) readLines(r io.Reader, send func(string, []client.Ack) error) error {
	decoder := json.NewDecoder(bufio.NewReaderSize(r, 1<<16))
	var acks []client.Ack
	var group string
	for n := 1; ; n++ {
		var l popLine
		err := decoder.Decode(&l)
		if errors.Is(err, io.EOF) {
			return send(group, acks)
		}
		if err != nil {
			return fmt.Errorf("read message %d: %w", n, err)
		}
		if l.PartitionID == "" {
			return fmt.Errorf("message %d has no partitionId: ack reads what pop writes without --data-only", n)
		}
		if len(acks) == ackBatch || l.Group != group {
			if err := send(group, acks); err != nil {
				return err
			}
			acks = acks[:0]
		}
		group = l.Group
		acks = append(acks, c.ack(l.TransactionID, l.PartitionID, l.LeaseID))
	}
}

func (c *AckCmd) send(ctx context.Context, s *Session, cl *client.Client, group string, acks []client.Ack, sum *ackReport) error {
	results, err := cl.AckBatch(ctx, group, acks)
	if err != nil {
		return fmt.Errorf("acknowledge: %w", err)
	}
	for i, r := range results {
		switch {
		case !r.Success:
			sum.Refused++
			fmt.Fprintf(s.Stderr, "waggle: %s was not acknowledged: %s\n", acks[i].TransactionID, r.Error)
		case r.DLQ && acks[i].Status != client.Completed:
			sum.DeadLettered++
			sum.Acknowledged++
		default:
			sum.Acknowledged++
		}
	}
	return nil
}
