package client

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
)

// DeleteDeadLetters removes a queue's dead letters, those of one group where it is named, and returns how many.
func (c *Client) DeleteDeadLetters(ctx context.Context, queue, group string) (deleted int64, err error) {
	query := url.Values{"queue": {queue}}
	set(query, "consumerGroup", group)
	var got struct {
		Deleted int64 `json:"deleted"`
	}
	_, err = c.doJSON(ctx, call{method: http.MethodDelete, path: "/api/v1/dlq?" + query.Encode(), key: queue}, &got)
	return got.Deleted, err
}

// Replay says where a dead letter goes; empty names mean its own queue and partition.
type Replay struct {
	ID        string
	Queue     string
	Partition string
}

// Replayed is a dead letter that became a message again. Result is moved, or duplicate when an earlier replay had
// already written it.
type Replayed struct {
	Result     string `json:"result"`
	Queue      string `json:"queue"`
	Partition  string `json:"partition"`
	DeadLetter string `json:"dlqId"`
	ReplayedAs struct {
		MessageID     string `json:"message_id"`
		TransactionID string `json:"transaction_id"`
	} `json:"replayedAs"`
}

// ReplayDeadLetter moves a dead letter back into a queue. Repeating it is safe.
func (c *Client) ReplayDeadLetter(ctx context.Context, r Replay) (Replayed, error) {
	fields := map[string]string{}
	if r.Queue != "" {
		fields["queue"] = r.Queue
	}
	if r.Partition != "" {
		fields["partition"] = r.Partition
	}
	body, err := json.Marshal(fields)
	if err != nil {
		return Replayed{}, fmt.Errorf("encode replay: %w", err)
	}
	var got Replayed
	_, err = c.doJSON(ctx, call{method: http.MethodPost, path: "/api/v1/dlq/" + url.PathEscape(r.ID) + "/replay", body: body}, &got)
	return got, err
}
