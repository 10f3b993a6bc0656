package conformance

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"testing"
	"time"
)

// flavour is how one of the published clients writes its requests, by Appendix A.
type flavour struct {
	name string
	// popName and deleteName write a name into the path of a pop and of the deletion of a queue, adminName into all
	// other paths, groupName into those of groups.
	popName, deleteName, adminName, groupName func(string) string
	header                                    map[string]string
	// omitsEmpty sends nothing where the others send {}.
	omitsEmpty bool
	attempts   int
}

var flavours = []flavour{
	{
		name: "JavaScript", popName: asFetchDoes, deleteName: url.PathEscape, adminName: url.PathEscape, groupName: url.PathEscape,
		header: map[string]string{"Content-Type": "application/json"}, attempts: 3,
	},
	{
		name: "Python", popName: asFetchDoes, deleteName: asFetchDoes, adminName: keepSlashes, groupName: keepSlashes,
		header: map[string]string{"Content-Type": "application/json"}, omitsEmpty: true, attempts: 3,
	},
	{
		name: "Go", popName: url.PathEscape, deleteName: url.PathEscape, adminName: url.PathEscape, groupName: asFetchDoes,
		header: map[string]string{"Content-Type": "application/json", "Accept": "application/json"}, attempts: 4,
	},
}

// asFetchDoes is a name that nobody encoded: the HTTP library hides only what cannot stand in a URL at all.
func asFetchDoes(name string) string {
	var b strings.Builder
	for i := range len(name) {
		if c := name[i]; c <= ' ' || c >= 0x7f || strings.IndexByte("\"#<>?`{}^", c) >= 0 {
			fmt.Fprintf(&b, "%%%02X", c)
		} else {
			b.WriteByte(c)
		}
	}
	return b.String()
}

func keepSlashes(name string) string { return strings.ReplaceAll(url.PathEscape(name), "%2F", "/") }

// sdk is a client written from Appendix A alone.
type sdk struct {
	flavour
	server *server
	group  string
	next   int
}

func newSDK(s *server, f flavour, group string) *sdk {
	for name, value := range f.header {
		s = s.with(name, value)
	}
	return &sdk{flavour: f, server: s, group: group}
}

// refusal is an answer of 400 and above.
type refusal struct {
	status int
	text   string
}

func (r *refusal) Error() string { return fmt.Sprintf("HTTP %d: %s", r.status, r.text) }

// request follows the rules of retry: the next server after a network failure or a 5xx, never after a 4xx. It is never
// retried in place where there are several servers. A 204 is nil.
func (c *sdk) request(ctx context.Context, method, path string, body any) (any, error) {
	if fields, isObject := body.(object); isObject && len(fields) == 0 && c.omitsEmpty {
		body = nil
	}
	var last error
	for range max(c.attempts, len(c.server.urls)) {
		base := c.server.urls[c.next%len(c.server.urls)]
		c.next++
		got, err := c.server.send(ctx, base, method, path, body)
		switch {
		case err != nil:
			last = err
			continue
		case got.status >= 500:
			last = &refusal{got.status, string(got.body)}
			continue
		case got.status >= 400:
			return nil, &refusal{got.status, string(got.body)}
		case got.status == 204:
			return nil, nil
		case !strings.Contains(got.header.Get("Content-Type"), "application/json"):
			return nil, nil // such clients fall back to null
		}
		var value any
		return value, json.Unmarshal(got.body, &value)
	}
	return nil, last
}

// part leaves the partition Default out of a pop, which makes it a queue-scoped one.
func (c *sdk) popPath(queue, partition string) string {
	path := "/api/v1/pop/queue/" + c.popName(queue)
	if partition != "" && partition != "Default" {
		path += "/partition/" + c.popName(partition)
	}
	return path
}

func (c *sdk) pop(ctx context.Context, queue, partition string, batch int, more url.Values) ([]any, error) {
	query := url.Values{"batch": {fmt.Sprint(batch)}, "wait": {"true"}, "timeout": {"5000"}}
	if c.group != "" {
		query.Set("consumerGroup", c.group)
	}
	for name, values := range more {
		query[name] = values
	}
	got, err := c.request(ctx, "GET", c.popPath(queue, partition)+"?"+query.Encode(), nil)
	if err != nil || got == nil {
		return nil, err
	}
	messages, _ := got.(object)["messages"].([]any)
	return messages, nil
}

func (c *sdk) push(ctx context.Context, queue, partition string, ids ...string) error {
	items := list{}
	for _, id := range ids {
		items = append(items, object{"queue": queue, "partition": partition, "payload": object{"id": id}, "transactionId": id})
	}
	got, err := c.request(ctx, "POST", "/api/v1/push", object{"items": items})
	if err != nil {
		return err
	}
	results, isList := got.([]any)
	if !isList || len(results) != len(ids) {
		return fmt.Errorf("push answered %v", got)
	}
	for _, result := range results {
		if status := result.(object)["status"]; status != "queued" && status != "buffered" {
			return fmt.Errorf("push answered %v", got)
		}
	}
	return nil
}

// ack settles messages; one goes the single way, more the batch way.
func (c *sdk) ack(ctx context.Context, messages []any, status string, reason any) error {
	var group any
	if c.group != "" {
		group = c.group
	}
	acks := list{}
	for _, message := range messages {
		m := message.(object)
		acks = append(acks, object{
			"transactionId": m["transactionId"], "partitionId": m["partitionId"], "status": status, "error": reason, "leaseId": m["leaseId"],
		})
	}
	path, body := "/api/v1/ack/batch", object{"acknowledgments": acks, "consumerGroup": group}
	if len(acks) == 1 {
		path, body = "/api/v1/ack", acks[0].(object)
		body["consumerGroup"] = group
	}
	got, err := c.request(ctx, "POST", path, body)
	if err != nil {
		return err
	}
	results, _ := got.([]any)
	if len(results) != len(acks) {
		return fmt.Errorf("ack answered %v", got)
	}
	for _, result := range results {
		if result.(object)["success"] != true {
			return fmt.Errorf("ack answered %v", got)
		}
	}
	return nil
}

// renew extends each distinct lease once and returns the new expiry.
func (c *sdk) renew(ctx context.Context, messages []any) (expiry time.Time, err error) {
	seen := map[any]bool{}
	for _, message := range messages {
		lease := message.(object)["leaseId"]
		if seen[lease] {
			continue
		}
		seen[lease] = true
		got, err := c.request(ctx, "POST", fmt.Sprintf("/api/v1/lease/%s/extend", lease), object{})
		if err != nil {
			return expiry, err
		}
		answer, _ := got.(object)
		if answer["leaseId"] == nil {
			return expiry, fmt.Errorf("extend answered %v", got)
		}
		text, _ := answer["newExpiresAt"].(string)
		if expiry, err = time.Parse(time.RFC3339, text); err != nil {
			return expiry, err
		}
	}
	return expiry, nil
}

var errStopped = errors.New("stopped")

// consume calls the handler for each message and acks on the client's side until the handler stops it. A failure of the
// handler is a nack with its text, and the rest of the batch is dropped.
func (c *sdk) consume(ctx context.Context, queue string, batch int, handle func(message object) error) error {
	for ctx.Err() == nil {
		messages, err := c.pop(ctx, queue, "", batch, url.Values{"subscriptionMode": {"all"}})
		if err != nil {
			return err
		}
		for _, message := range messages {
			failure := handle(message.(object))
			if errors.Is(failure, errStopped) {
				return c.ack(ctx, []any{message}, "completed", nil)
			}
			if failure != nil {
				if err := c.ack(ctx, []any{message}, "failed", failure.Error()); err != nil {
					return err
				}
				break
			}
			if err := c.ack(ctx, []any{message}, "completed", nil); err != nil {
				return err
			}
		}
	}
	return ctx.Err()
}

func (c *sdk) admin(t testing.TB, method, path string, body any) any {
	t.Helper()
	got, err := c.request(t.Context(), method, path, body)
	if err != nil {
		t.Fatalf("%s %s: %v", method, path, err)
	}
	return got
}
