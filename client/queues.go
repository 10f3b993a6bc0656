package client

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"time"
)

// Configuration creates a queue or changes its options.
type Configuration struct {
	Queue string
	// Namespace and Task are left as they are when nil.
	Namespace *string
	Task      *string
	// Options are set by name; a nil value sets an option back to its default, an absent one is kept.
	Options map[string]any
	// Replace sets every option that is not given back to its default.
	Replace bool
	// IfVersion, when not zero, makes the call fail with status 409 unless the stored options have that version.
	IfVersion int64
}

// Configured is the state of a queue after Configure.
type Configured struct {
	QueueID        string         `json:"queueId"`
	Queue          string         `json:"queue"`
	Namespace      string         `json:"namespace"`
	Task           string         `json:"task"`
	Options        map[string]any `json:"options"`
	OptionsVersion int64          `json:"optionsVersion"`
	// Ignored lists the options that the broker does not know.
	Ignored []string `json:"ignored"`
}

// Configure creates the queue if it is missing and sets its options.
func (c *Client) Configure(ctx context.Context, r Configuration) (Configured, error) {
	body := map[string]any{"queue": r.Queue, "mode": "merge"}
	if r.Replace {
		body["mode"] = "replace"
	}
	if r.Namespace != nil {
		body["namespace"] = *r.Namespace
	}
	if r.Task != nil {
		body["task"] = *r.Task
	}
	if r.IfVersion != 0 {
		body["ifVersion"] = r.IfVersion
	}
	options := r.Options
	if options == nil {
		options = map[string]any{}
	}
	body["options"] = options
	content, err := json.Marshal(body)
	if err != nil {
		return Configured{}, fmt.Errorf("encode configuration: %w", err)
	}
	k := call{method: http.MethodPost, path: "/api/v1/configure", body: content, key: r.Queue, once: r.IfVersion != 0}
	var got Configured
	_, err = c.doJSON(ctx, k, &got)
	return got, err
}

// DeleteQueue removes a queue with all it holds; existed is false when there was none. After a fail-over it may be
// false for a queue that this very call removed.
func (c *Client) DeleteQueue(ctx context.Context, queue string) (existed bool, err error) {
	var got struct {
		Existed bool `json:"existed"`
	}
	k := call{method: http.MethodDelete, path: queuePath(queue), key: queue}
	_, err = c.doJSON(ctx, k, &got)
	return got.Existed, err
}

// QueueSummary is one line of the list of queues.
type QueueSummary struct {
	ID            string         `json:"id"`
	Name          string         `json:"name"`
	Namespace     string         `json:"namespace"`
	Task          string         `json:"task"`
	CreatedAt     time.Time      `json:"createdAt"`
	Partitions    int64          `json:"partitions"`
	RetainedBytes int64          `json:"retainedBytes"`
	Segments      SegmentCounts  `json:"segments"`
	Messages      MessageSummary `json:"messages"`
}

// SegmentCounts counts what is stored.
type SegmentCounts struct {
	Segments int64 `json:"segments"`
	Messages int64 `json:"messages"`
}

// MessageSummary counts messages as queue mode sees them.
type MessageSummary struct {
	Total      int64 `json:"total"`
	Pending    int64 `json:"pending"`
	Processing int64 `json:"processing"`
}

// Counts are the statistics of a queue or partition.
type Counts struct {
	Total      int64 `json:"total"`
	Pending    int64 `json:"pending"`
	Processing int64 `json:"processing"`
	Completed  int64 `json:"completed"`
	DeadLetter int64 `json:"deadLetter"`
}

// PartitionDetail is one partition of a queue.
type PartitionDetail struct {
	ID            string     `json:"id"`
	Name          string     `json:"name"`
	CreatedAt     time.Time  `json:"createdAt"`
	Stats         Counts     `json:"stats"`
	OldestMessage *time.Time `json:"oldestMessage"`
	NewestMessage *time.Time `json:"newestMessage"`
}

// QueueDetail describes one queue.
type QueueDetail struct {
	ID            string            `json:"id"`
	Name          string            `json:"name"`
	Namespace     string            `json:"namespace"`
	Task          string            `json:"task"`
	CreatedAt     time.Time         `json:"createdAt"`
	Options       map[string]any    `json:"options"`
	Partitions    []PartitionDetail `json:"partitions"`
	Totals        Counts            `json:"totals"`
	RetainedBytes int64             `json:"retainedBytes"`
	Segments      SegmentCounts     `json:"segments"`
}

// Queues lists the tenant's queues, newest first.
func (c *Client) Queues(ctx context.Context) ([]QueueSummary, error) {
	var got struct {
		Queues []QueueSummary `json:"queues"`
	}
	_, err := c.doJSON(ctx, call{method: http.MethodGet, path: "/api/v1/resources/queues"}, &got)
	return got.Queues, err
}

// Queue describes one queue; an unknown one is an *Error with status 404.
func (c *Client) Queue(ctx context.Context, queue string) (QueueDetail, error) {
	var got QueueDetail
	_, err := c.doJSON(ctx, call{method: http.MethodGet, path: queuePath(queue), key: queue}, &got)
	return got, err
}

func queuePath(queue string) string { return "/api/v1/resources/queues/" + url.PathEscape(queue) }

// DeadLetterQuery selects dead letters; every field may be left out.
type DeadLetterQuery struct {
	Queue  string
	Group  string
	Limit  int
	Offset int
}

// DeadLetterMessage is a message that a group gave up on.
type DeadLetterMessage struct {
	ID            string          `json:"id"`
	TransactionID string          `json:"transactionId"`
	PartitionID   string          `json:"partitionId"`
	Queue         string          `json:"queue"`
	Partition     string          `json:"partition"`
	Group         string          `json:"consumerGroup"`
	Error         string          `json:"errorMessage"`
	RetryCount    int             `json:"retryCount"`
	Data          json.RawMessage `json:"data"`
	ProducerSub   string          `json:"producerSub"`
	FailedAt      time.Time       `json:"failedAt"`
	// PushedAt is nil where it is not known.
	PushedAt *time.Time `json:"pushedAt"`
}

// DeadLetters lists dead letters, newest failure first.
func (c *Client) DeadLetters(ctx context.Context, q DeadLetterQuery) ([]DeadLetterMessage, error) {
	query := url.Values{}
	set(query, "queue", q.Queue)
	set(query, "consumerGroup", q.Group)
	if q.Limit > 0 {
		query.Set("limit", strconv.Itoa(q.Limit))
	}
	if q.Offset > 0 {
		query.Set("offset", strconv.Itoa(q.Offset))
	}
	path := "/api/v1/dlq"
	if len(query) > 0 {
		path += "?" + query.Encode()
	}
	var got struct {
		Messages []DeadLetterMessage `json:"messages"`
	}
	_, err := c.doJSON(ctx, call{method: http.MethodGet, path: path}, &got)
	return got.Messages, err
}
