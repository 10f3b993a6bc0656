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

// QueueModeGroup is the consumer group of pops that name none.
const QueueModeGroup = "__QUEUE_MODE__"

// GroupSummary is one consumer group on one queue. MaxTimeLag is in seconds.
type GroupSummary struct {
	Name              string     `json:"name"`
	Queue             string     `json:"queueName"`
	Members           int64      `json:"members"`
	PartitionsWithLag int64      `json:"partitionsWithLag"`
	TotalLag          int64      `json:"totalLag"`
	MaxTimeLag        float64    `json:"maxTimeLag"`
	State             string     `json:"state"`
	SubscriptionMode  string     `json:"subscriptionMode"`
	SubscribedAt      *time.Time `json:"subscriptionTimestamp"`
	Conflation        bool       `json:"conflation"`
}

// Groups lists the tenant's consumer groups, one entry a group and queue.
func (c *Client) Groups(ctx context.Context) ([]GroupSummary, error) {
	var got []GroupSummary
	_, err := c.doJSON(ctx, call{method: http.MethodGet, path: "/api/v1/consumer-groups"}, &got)
	return got, err
}

// LaggingPartition is a partition that a group has not consumed for long.
type LaggingPartition struct {
	Group            string     `json:"consumer_group"`
	Queue            string     `json:"queue_name"`
	Partition        string     `json:"partition_name"`
	PartitionID      string     `json:"partition_id"`
	OffsetLag        int64      `json:"offset_lag"`
	TimeLagSeconds   float64    `json:"time_lag_seconds"`
	OldestUnconsumed *time.Time `json:"oldest_unconsumed_at"`
}

// Lagging lists the partitions with a message that waits for longer than the given time.
func (c *Client) Lagging(ctx context.Context, atLeast time.Duration) ([]LaggingPartition, error) {
	path := "/api/v1/consumer-groups/lagging?minLagSeconds=" + strconv.FormatInt(int64(atLeast.Seconds()), 10)
	var got []LaggingPartition
	_, err := c.doJSON(ctx, call{method: http.MethodGet, path: path}, &got)
	return got, err
}

// GroupPartition is how far a group is in one partition.
type GroupPartition struct {
	Partition      string  `json:"partition"`
	TotalConsumed  int64   `json:"totalConsumed"`
	OffsetLag      int64   `json:"offsetLag"`
	TimeLagSeconds float64 `json:"timeLagSeconds"`
	LeaseActive    bool    `json:"leaseActive"`
}

// GroupQueue is a group on one queue.
type GroupQueue struct {
	Conflation bool             `json:"conflation"`
	Partitions []GroupPartition `json:"partitions"`
}

// Group describes a consumer group, by queue; an unknown one has no queues.
func (c *Client) Group(ctx context.Context, group string) (map[string]GroupQueue, error) {
	var got map[string]GroupQueue
	_, err := c.doJSON(ctx, call{method: http.MethodGet, path: groupPath(group)}, &got)
	return got, err
}

// GroupDeletion is what DeleteGroup took away.
type GroupDeletion struct {
	Group           string `json:"consumerGroup"`
	Queue           string `json:"queueName,omitempty"`
	Partitions      int64  `json:"deletedPartitions"`
	MetadataDeleted bool   `json:"metadataDeleted"`
}

// DeleteGroup takes away a group's cursors, on one queue or, with an empty name, on all; with metadata its registration
// too, so that its next pop is a first one.
func (c *Client) DeleteGroup(ctx context.Context, group, queue string, metadata bool) (GroupDeletion, error) {
	path := groupPath(group)
	if queue != "" {
		path += "/queues/" + url.PathEscape(queue)
	}
	var got GroupDeletion
	k := call{method: http.MethodDelete, path: path + "?deleteMetadata=" + strconv.FormatBool(metadata), key: queue}
	_, err := c.doJSON(ctx, k, &got)
	return got, err
}

// SeekRequest moves a group's cursors on a queue, or on one partition of it. To is nil for the end.
type SeekRequest struct {
	Group     string
	Queue     string
	Partition string
	To        *time.Time
}

// Seek moves cursors backwards or forwards, ends leases, and returns how many partitions it moved.
func (c *Client) Seek(ctx context.Context, r SeekRequest) (partitions int64, err error) {
	body := []byte(`{"toEnd":true}`)
	if r.To != nil {
		content, err := json.Marshal(map[string]string{"timestamp": r.To.UTC().Format("2006-01-02T15:04:05.000000Z")})
		if err != nil {
			return 0, fmt.Errorf("encode seek: %w", err)
		}
		body = content
	}
	path := groupPath(r.Group) + "/queues/" + url.PathEscape(r.Queue)
	if r.Partition != "" {
		path += "/partitions/" + url.PathEscape(r.Partition)
	}
	var got struct {
		Updated           json.RawMessage `json:"updated"`
		PartitionsUpdated int64           `json:"partitionsUpdated"`
	}
	_, err = c.doJSON(ctx, call{method: http.MethodPost, path: path + "/seek", body: body, key: r.Queue}, &got)
	if r.Partition != "" && err == nil && string(got.Updated) != "false" && string(got.Updated) != "0" {
		return 1, nil
	}
	return got.PartitionsUpdated, err
}

func groupPath(group string) string { return "/api/v1/consumer-groups/" + url.PathEscape(group) }
