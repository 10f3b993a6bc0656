package main

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"time"
)

// waggle is one broker on the same PostgreSQL, over its HTTP interface: its clients parse JSON, which counts.
type waggle struct {
	program  string
	postgres *postgres
	command  *exec.Cmd
	url      string
	client   *http.Client
	topics   atomic.Int64
}

func (w *waggle) name() string { return "waggle" }
func (w *waggle) settings() string {
	return "one broker, defaults; a partition for each key, 16 where any order will do; de-duplication on, each message acknowledged; PostgreSQL: " + postgresSettings
}

func (w *waggle) start(ctx context.Context, folder string) error {
	program, err := filepath.Abs(w.program)
	if err != nil {
		return err
	}
	if _, err := os.Stat(program); err != nil {
		return fmt.Errorf("%w; `make build` makes it", err)
	}
	pool, err := w.postgres.database(ctx, "waggle")
	if err != nil {
		return err
	}
	pool.Close()
	port, err := freePort()
	if err != nil {
		return err
	}
	w.url = fmt.Sprintf("http://127.0.0.1:%d", port)
	w.command = exec.Command(program, "serve", "--listen", fmt.Sprintf("127.0.0.1:%d", port), "--mesh", "off", "--database-url", w.postgres.url("waggle"))
	w.command.Dir = folder
	if err := w.command.Start(); err != nil {
		return err
	}
	w.client = &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 100}}
	for range 200 {
		response, err := w.client.Get(w.url + "/health/ready")
		if err == nil {
			response.Body.Close()
			if response.StatusCode == http.StatusOK {
				return nil
			}
		}
		sleep(ctx, 50*time.Millisecond)
	}
	w.stop()
	return fmt.Errorf("the broker did not become ready")
}

func (w *waggle) stop() {
	_ = w.command.Process.Signal(os.Interrupt)
	_ = w.command.Wait()
}

func (w *waggle) pids() []int      { return []int{w.command.Process.Pid, w.postgres.pid} }
func (w *waggle) ordersKeys() bool { return true }

func (w *waggle) topic(ctx context.Context, task work) (topic, error) {
	t := &waggleTopic{waggle: w, work: task, queue: fmt.Sprintf("peers-%d", w.topics.Add(1))}
	// The group begins before the first message.
	_, err := t.pop(ctx, false)
	return t, err
}

type waggleTopic struct {
	*waggle
	work  work
	queue string
}

func (t *waggleTopic) post(ctx context.Context, path string, body []byte) ([]byte, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, t.url+path, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	return t.answer(request)
}

func (t *waggleTopic) answer(request *http.Request) ([]byte, error) {
	response, err := t.client.Do(request)
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	content, err := io.ReadAll(response.Body)
	if err == nil && response.StatusCode/100 != 2 {
		err = fmt.Errorf("status %d: %.200s", response.StatusCode, content)
	}
	return content, err
}

func (t *waggleTopic) producer(context.Context) (func(context.Context, []message) error, error) {
	var body bytes.Buffer
	return func(ctx context.Context, batch []message) error {
		body.Reset()
		body.WriteString(`{"items":[`)
		for i, m := range batch {
			if i > 0 {
				body.WriteByte(',')
			}
			// Sixteen bytes are binary; the rest is text and goes as it is, so that the payload stays about as long.
			fmt.Fprintf(&body, `{"queue":%q,"partition":"%d","transactionId":"%x","payload":"%s%s"}`,
				t.queue, m.key, m.payload[:8], base64.RawStdEncoding.EncodeToString(m.payload[:12]), m.payload[12:])
		}
		body.WriteString(`]}`)
		answer, err := t.post(ctx, "/api/v1/push", body.Bytes())
		if err == nil && bytes.Count(answer, []byte(`"queued"`)) != len(batch) {
			err = fmt.Errorf("push answered %.200s", answer)
		}
		return err
	}, nil
}

// popped is what matters of an answer.
type popped struct {
	Messages []struct {
		Data          string `json:"data"`
		PartitionID   string `json:"partitionId"`
		TransactionID string `json:"transactionId"`
		LeaseID       string `json:"leaseId"`
	} `json:"messages"`
}

func (t *waggleTopic) pop(ctx context.Context, wait bool) (got popped, err error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, fmt.Sprintf(
		"%s/api/v1/pop/queue/%s?consumerGroup=g&subscriptionMode=all&batch=%d&partitions=%d&wait=%v&timeout=1000", t.url, t.queue, t.work.batch, max(t.work.batch/10, 1), wait,
	), nil)
	if err != nil {
		return got, err
	}
	content, err := t.answer(request)
	if err != nil || len(content) == 0 {
		return got, err
	}
	return got, json.Unmarshal(content, &got)
}

func (t *waggleTopic) consume(ctx context.Context, _ int, handle func([][]byte)) error {
	var body bytes.Buffer
	for ctx.Err() == nil {
		got, err := t.pop(ctx, true)
		if err != nil {
			if ctx.Err() != nil {
				return nil
			}
			return err
		}
		if len(got.Messages) == 0 {
			continue
		}
		payloads := make([][]byte, len(got.Messages))
		body.Reset()
		body.WriteString(`{"consumerGroup":"g","acknowledgments":[`)
		for i, m := range got.Messages {
			if i > 0 {
				body.WriteByte(',')
			}
			fmt.Fprintf(&body, `{"transactionId":%q,"partitionId":%q,"leaseId":%q,"status":"completed"}`, m.TransactionID, m.PartitionID, m.LeaseID)
			head, err := base64.RawStdEncoding.DecodeString(m.Data[:16])
			if err != nil {
				return err
			}
			payloads[i] = head
		}
		body.WriteString(`]}`)
		answer, err := t.post(context.WithoutCancel(ctx), "/api/v1/ack/batch", body.Bytes())
		if err != nil {
			return err
		}
		if strings.Contains(string(answer), `"success":false`) {
			return fmt.Errorf("ack answered %.300s", answer)
		}
		handle(payloads)
	}
	return nil
}

func (t *waggleTopic) close() {}
