package client

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/url"
	"strconv"
	"time"
)

// QueueMode is the consumer group of pops that name none.
const QueueMode = "__QUEUE_MODE__"

const defaultWait = 30 * time.Second

// PopRequest asks for messages of a queue, of one partition of it, or, without Queue, of all queues with the given
// namespace and task.
type PopRequest struct {
	Queue     string
	Partition string
	Namespace string
	Task      string

	// Group is empty for queue mode.
	Group string
	// Batch caps the messages of the answer; zero leaves it to the broker.
	Batch int
	// Partitions caps how many partitions the answer may claim; zero leaves it to the broker (one), below zero means
	// no cap.
	Partitions int
	// Wait parks the call until there is something, for Timeout (30 s when zero) at most.
	Wait    bool
	Timeout time.Duration
	// AutoAck commits in the claim: at most once.
	AutoAck bool
	// Lease overrides the queue's lease time when positive; whole seconds.
	Lease time.Duration
	// Mode and From fix where a new group starts: "all" or "new", an RFC 3339 time or "now".
	Mode string
	From string
}

// PopAnswer is a claim of one or more partitions under one lease.
type PopAnswer struct {
	Queue             string    `json:"queue"`
	Partition         string    `json:"partition"`
	PartitionID       string    `json:"partitionId"`
	LeaseID           string    `json:"leaseId"`
	Group             string    `json:"consumerGroup"`
	PartitionsClaimed int       `json:"partitionsClaimed"`
	Messages          []Message `json:"messages"`

	// base is the URL of the broker that gave the answer: it remembers what it handed out.
	base string
}

// Message is one delivered message. Messages of one partition are contiguous and in order.
type Message struct {
	ID              string          `json:"id"`
	TransactionID   string          `json:"transactionId"`
	TraceID         string          `json:"traceId"`
	Data            json.RawMessage `json:"data"`
	ProducerSub     string          `json:"producerSub"`
	CreatedAt       time.Time       `json:"createdAt"`
	PartitionID     string          `json:"partitionId"`
	Partition       string          `json:"partition"`
	LeaseID         string          `json:"leaseId"`
	Group           string          `json:"consumerGroup"`
	DeliveryAttempt int             `json:"deliveryAttempt"`
}

// Pop claims messages; nil and no error means that there were none. Cancelling ctx ends a parked pop, and the broker
// takes back what it was about to give.
func (c *Client) Pop(ctx context.Context, r PopRequest) (*PopAnswer, error) {
	path, err := popPath(r)
	if err != nil {
		return nil, err
	}
	k := call{method: http.MethodGet, path: path, key: r.Queue + "\x00" + r.Group, once: r.AutoAck}
	if r.Wait {
		k.timeout = r.timeout() + waitAllowance
	}
	var got PopAnswer
	from, err := c.doJSON(ctx, k, &got)
	if err != nil || len(got.Messages) == 0 {
		return nil, err
	}
	got.base = from.base
	return &got, nil
}

func (r PopRequest) timeout() time.Duration {
	if r.Timeout <= 0 {
		return defaultWait
	}
	return r.Timeout
}

func popPath(r PopRequest) (string, error) {
	query := url.Values{}
	path := "/api/v1/pop"
	switch {
	case r.Queue != "":
		path += "/queue/" + url.PathEscape(r.Queue)
		if r.Partition != "" {
			path += "/partition/" + url.PathEscape(r.Partition)
		}
	case r.Partition != "":
		return "", errors.New("pop of a partition needs its queue")
	case r.Namespace == "" && r.Task == "":
		return "", errors.New("pop needs a queue, a namespace or a task")
	default:
		set(query, "namespace", r.Namespace)
		set(query, "task", r.Task)
	}
	set(query, "consumerGroup", r.Group)
	set(query, "subscriptionMode", r.Mode)
	set(query, "subscriptionFrom", r.From)
	if r.Batch != 0 {
		query.Set("batch", strconv.Itoa(r.Batch))
	}
	if r.Partitions != 0 {
		query.Set("partitions", strconv.Itoa(r.Partitions))
	}
	if r.Wait {
		query.Set("wait", "true")
		query.Set("timeout", strconv.FormatInt(max(1, r.timeout().Milliseconds()), 10))
	}
	if r.AutoAck {
		query.Set("autoAck", "true")
	}
	if r.Lease > 0 {
		query.Set("leaseSeconds", strconv.FormatInt(max(1, int64(r.Lease/time.Second)), 10))
	}
	if len(query) > 0 {
		path += "?" + query.Encode()
	}
	return path, nil
}

func set(query url.Values, name, value string) {
	if value != "" {
		query.Set(name, value)
	}
}
