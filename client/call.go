package client

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"
)

const (
	// maxAnswer bounds what is read of one answer; brokers cut theirs well below it.
	maxAnswer = 256 << 20
	// maxErrorText bounds how much of an answer without "error" is shown.
	maxErrorText = 300

	firstPause = 200 * time.Millisecond
	maxPause   = 2 * time.Second
)

// call is one request, however often it is tried.
type call struct {
	method string
	// path begins with a slash, is escaped, and carries the query.
	path string
	body []byte
	// key chooses the preferred broker, unless first names its base URL.
	key   string
	first string
	// once forbids a repeat after the request may have reached a broker.
	once bool
	// timeout bounds one attempt; zero means the configured one.
	timeout time.Duration
}

// answer is a 2xx answer. Body is empty for 204.
type answer struct {
	status int
	body   []byte
	// base is the URL of the broker that gave it.
	base string
}

// do tries the call at one broker after the other until one answers below 500.
func (c *Client) do(ctx context.Context, k call) (*answer, error) {
	failures := &UnreachableError{}
	for round := range c.config.Rounds {
		if round > 0 {
			if err := sleep(ctx, min(firstPause<<(round-1), maxPause)); err != nil {
				return nil, fmt.Errorf("%w: %w", err, failures)
			}
		}
		for _, s := range c.order(k.key, k.first) {
			got, err := c.try(ctx, s, k)
			if err == nil {
				s.downUntil.Store(0)
				return got, nil
			}
			if ctx.Err() != nil {
				return nil, context.Cause(ctx)
			}
			var refused *Error
			if errors.As(err, &refused) && refused.Status < http.StatusInternalServerError {
				s.downUntil.Store(0)
				return nil, err
			}
			s.downUntil.Store(time.Now().Add(c.config.DownFor).UnixNano())
			if k.once && refused == nil && !neverSent(err) {
				return nil, &LostAnswerError{URL: s.base, Err: err}
			}
			failures.note(s.base, shorten(err))
		}
	}
	return nil, failures
}

func (c *Client) try(ctx context.Context, s *server, k call) (*answer, error) {
	timeout := k.timeout
	if timeout <= 0 {
		timeout = c.config.Timeout
	}
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	var body io.Reader
	if k.body != nil {
		body = bytes.NewReader(k.body)
	}
	req, err := http.NewRequestWithContext(ctx, k.method, s.base+k.path, body)
	if err != nil {
		return nil, fmt.Errorf("build request: %w", err)
	}
	if k.body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	req.Header.Set("Accept", "application/json")
	if !k.once {
		// Known to the transport, never sent: lets it replay the request when a kept-alive connection was closed.
		req.Header["X-Idempotency-Key"] = nil
	}
	if c.config.Token != "" {
		req.Header.Set("Authorization", "Bearer "+c.config.Token)
	}
	if c.config.Tenant != "" {
		req.Header.Set(TenantHeader, c.config.Tenant)
	}
	resp, err := c.http.Do(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	content, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer))
	if err != nil {
		return nil, fmt.Errorf("read answer: %w", err)
	}
	if resp.StatusCode/100 == 2 {
		return &answer{status: resp.StatusCode, body: content, base: s.base}, nil
	}
	return nil, refusal(req, resp.StatusCode, content)
}

// doJSON decodes the answer into out.
func (c *Client) doJSON(ctx context.Context, k call, out any) (*answer, error) {
	got, err := c.do(ctx, k)
	if err != nil || got.status == http.StatusNoContent {
		return got, err
	}
	if err := json.Unmarshal(got.body, out); err != nil {
		return nil, fmt.Errorf("decode answer of %s %s: %w", k.method, k.path, err)
	}
	return got, nil
}

func refusal(req *http.Request, status int, content []byte) *Error {
	e := &Error{Method: req.Method, URL: req.URL.Redacted(), Status: status}
	var body struct {
		Error any    `json:"error"`
		Code  string `json:"code"`
	}
	if json.Unmarshal(content, &body) == nil {
		e.Code = body.Code
		if text, ok := body.Error.(string); ok {
			e.Message = text
			return e
		}
	}
	e.Message = strings.TrimSpace(string(content[:min(len(content), maxErrorText)]))
	return e
}

// neverSent tells a failed dial from every failure after which a broker may have seen the request.
func neverSent(err error) bool {
	var op *net.OpError
	return errors.As(err, &op) && op.Op == "dial"
}

// shorten drops the method and URL that net/http puts in front; the URL stands beside it already.
func shorten(err error) error {
	var wrapped *url.Error
	if errors.As(err, &wrapped) {
		return wrapped.Err
	}
	return err
}

func sleep(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
