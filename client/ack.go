package client

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"time"
)

// AckStatus is what a consumer says of a message.
type AckStatus string

// The statuses of an acknowledgement. Failed charges the retry budget, Retry does not, DLQ dead-letters at once.
const (
	Completed  AckStatus = "completed"
	AckFailed  AckStatus = "failed"
	Retry      AckStatus = "retry"
	DeadLetter AckStatus = "dlq"
)

// Ack names a message by partition and transaction id.
type Ack struct {
	TransactionID string    `json:"transactionId"`
	PartitionID   string    `json:"partitionId"`
	Status        AckStatus `json:"status"`
	// LeaseID is empty for an ack that is not checked against a lease.
	LeaseID string `json:"leaseId,omitempty"`
	// Error is the reason of a failure; it ends up in the dead letter.
	Error string `json:"error,omitempty"`

	// base is the URL of the broker that gave the lease, if known.
	base string
}

// AckResult stands at the same index as its ack.
type AckResult struct {
	Index         int    `json:"index"`
	TransactionID string `json:"transactionId"`
	Success       bool   `json:"success"`
	Error         string `json:"error"`
	LeaseReleased bool   `json:"leaseReleased"`
	DLQ           bool   `json:"dlq"`
	Noop          bool   `json:"noop"`
}

// Completed acknowledges every message of the answer. Such acks go to the broker that gave the answer, if it is there:
// it needs not look the messages up, and lets its own parked pops have what comes next.
func (a *PopAnswer) Completed() []Ack {
	acks := make([]Ack, len(a.Messages))
	for i, m := range a.Messages {
		acks[i] = Ack{TransactionID: m.TransactionID, PartitionID: m.PartitionID, Status: Completed, LeaseID: m.LeaseID, base: a.base}
	}
	return acks
}

// Ack acknowledges one message; group is empty for queue mode. A refusal of the message is in the result, not an
// error.
func (c *Client) Ack(ctx context.Context, group string, ack Ack) (AckResult, error) {
	body := struct {
		Ack
		Group string `json:"consumerGroup,omitempty"`
	}{ack, group}
	results, err := c.ack(ctx, "/api/v1/ack", ack, body, 1)
	if err != nil {
		return AckResult{}, err
	}
	return results[0], nil
}

// AckBatch acknowledges messages of one group. Partitions succeed or fail on their own: look at each result.
func (c *Client) AckBatch(ctx context.Context, group string, acks []Ack) ([]AckResult, error) {
	if len(acks) == 0 {
		return nil, nil
	}
	body := struct {
		Acks  []Ack  `json:"acknowledgments"`
		Group string `json:"consumerGroup,omitempty"`
	}{acks, group}
	return c.ack(ctx, "/api/v1/ack/batch", acks[0], body, len(acks))
}

func (c *Client) ack(ctx context.Context, path string, to Ack, body any, want int) ([]AckResult, error) {
	content, err := json.Marshal(body)
	if err != nil {
		return nil, fmt.Errorf("encode ack: %w", err)
	}
	var results []AckResult
	k := call{method: http.MethodPost, path: path, body: content, key: to.PartitionID, first: to.base}
	if _, err := c.doJSON(ctx, k, &results); err != nil {
		return nil, err
	}
	if len(results) != want {
		return nil, fmt.Errorf("ack of %d messages was answered with %d results", want, len(results))
	}
	return results, nil
}

// Extension is the answer to Extend. ExpiresAt is the earliest new expiry, zero when nothing was renewed.
type Extension struct {
	LeaseID   string    `json:"leaseId"`
	Success   bool      `json:"success"`
	Renewed   int       `json:"renewed"`
	ExpiresAt time.Time `json:"newExpiresAt"`
}

// Extend renews a lease on all its partitions to at least d from now, in whole seconds. An unknown or expired lease
// is an Extension with Success false.
func (c *Client) Extend(ctx context.Context, lease string, d time.Duration) (Extension, error) {
	body := fmt.Appendf(nil, `{"seconds":%d}`, max(1, int64(d/time.Second)))
	k := call{method: http.MethodPost, path: "/api/v1/lease/" + url.PathEscape(lease) + "/extend", body: body, key: lease}
	var got Extension
	_, err := c.doJSON(ctx, k, &got)
	return got, err
}
