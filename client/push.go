package client

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/google/uuid"
)

// Item is one message to push.
type Item struct {
	Queue string
	// Partition is empty for the default partition.
	Partition string
	// TransactionID de-duplicates within its partition. Empty means a fresh one, so that the push can be repeated.
	TransactionID string
	// Payload is any JSON value; nil stands for null.
	Payload json.RawMessage
}

// PushStatus is what became of an item.
type PushStatus string

// What a broker answers for an item. Buffered items are safe on the broker's disk and stored later.
const (
	Queued    PushStatus = "queued"
	Duplicate PushStatus = "duplicate"
	Buffered  PushStatus = "buffered"
	Failed    PushStatus = "failed"
)

// PushResult stands at the same index as its item.
type PushResult struct {
	Index         int        `json:"index"`
	MessageID     string     `json:"message_id"`
	TransactionID string     `json:"transaction_id"`
	Queue         string     `json:"queueName"`
	Status        PushStatus `json:"status"`
	Error         string     `json:"error,omitempty"`
}

// Push stores items. The unit of commit is a partition: results may differ between partitions, so look at each
// Status. Items of one partition are stored in the order given.
func (c *Client) Push(ctx context.Context, items []Item) ([]PushResult, error) {
	body, err := appendPush(nil, items)
	if err != nil {
		return nil, err
	}
	key := ""
	if len(items) > 0 {
		key = items[0].Queue + "\x00" + items[0].Partition
	}
	results := make([]PushResult, 0, len(items))
	k := call{method: http.MethodPost, path: "/api/v1/push", body: body, key: key}
	if _, err := c.doJSON(ctx, k, &results); err != nil {
		return nil, err
	}
	if len(results) != len(items) {
		return nil, fmt.Errorf("push of %d items was answered with %d results", len(items), len(results))
	}
	return results, nil
}

// appendPush writes the request by hand: encoding/json would parse and copy every payload once more.
func appendPush(dst []byte, items []Item) ([]byte, error) {
	size := 16
	for _, item := range items {
		size += 128 + len(item.Queue) + len(item.Partition) + len(item.TransactionID) + len(item.Payload)
	}
	if cap(dst) < size {
		dst = make([]byte, 0, size)
	}
	dst = append(dst, `{"items":[`...)
	for i, item := range items {
		if i > 0 {
			dst = append(dst, ',')
		}
		id := item.TransactionID
		if id == "" {
			fresh, err := uuid.NewV7()
			if err != nil {
				return nil, fmt.Errorf("make transaction id: %w", err)
			}
			id = fresh.String()
		}
		var err error
		if dst, err = appendField(dst, `{"queue":`, item.Queue); err != nil {
			return nil, fmt.Errorf("encode queue of item %d: %w", i, err)
		}
		if item.Partition != "" {
			if dst, err = appendField(dst, `,"partition":`, item.Partition); err != nil {
				return nil, fmt.Errorf("encode partition of item %d: %w", i, err)
			}
		}
		if dst, err = appendField(dst, `,"transactionId":`, id); err != nil {
			return nil, fmt.Errorf("encode transaction id of item %d: %w", i, err)
		}
		dst = append(dst, `,"payload":`...)
		switch {
		case item.Payload == nil:
			dst = append(dst, "null"...)
		case !jsontext.Value(item.Payload).IsValid(jsontext.AllowDuplicateNames(true)):
			return nil, &InvalidPayloadError{Index: i}
		default:
			dst = append(dst, item.Payload...)
		}
		dst = append(dst, '}')
	}
	return append(dst, `]}`...), nil
}

// appendField refuses text that is no UTF-8: replaced bytes would silently name something else.
func appendField(dst []byte, field, text string) ([]byte, error) {
	return jsontext.AppendQuote(append(dst, field...), text)
}
