package client

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"time"
)

// LeaderStatus is who leads, and how its jobs are. Name is empty while nobody does.
type LeaderStatus struct {
	Name    string     `json:"name"`
	StartID string     `json:"startId"`
	Epoch   int64      `json:"epoch"`
	Since   *time.Time `json:"since"`
	Jobs    []Job      `json:"jobs"`
}

// Job is one of the leader's jobs. Times are nil for what has not happened yet.
type Job struct {
	Name        string     `json:"name"`
	Enabled     bool       `json:"enabled"`
	NextDue     *time.Time `json:"nextDue"`
	LastStart   *time.Time `json:"lastStart"`
	LastSuccess *time.Time `json:"lastSuccess"`
	LastFailure *time.Time `json:"lastFailure"`
	LastError   *string    `json:"lastError"`
	LastRows    int64      `json:"lastRows"`
	RowsDone    int64      `json:"rowsDone"`
	MinBuild    int        `json:"minBuild"`
}

// Leader asks a broker who leads.
func (c *Client) Leader(ctx context.Context) (LeaderStatus, error) {
	var got LeaderStatus
	_, err := c.doJSON(ctx, call{method: http.MethodGet, path: "/api/v1/cluster/leader"}, &got)
	return got, err
}

// StepDown makes the leader resign, whichever broker is asked, and returns its name.
func (c *Client) StepDown(ctx context.Context) (string, error) {
	var got struct {
		SteppedDown string `json:"steppedDown"`
	}
	_, err := c.doJSON(ctx, call{method: http.MethodPost, path: "/api/v1/cluster/leader/step-down", once: true}, &got)
	return got.SteppedDown, err
}

// RunJob makes one of the leader's jobs due now.
func (c *Client) RunJob(ctx context.Context, job string) error {
	_, err := c.do(ctx, call{method: http.MethodPost, path: "/api/v1/cluster/leader/jobs/" + url.PathEscape(job) + "/run"})
	return err
}

// SwitchJob switches one of the leader's jobs on or off, for the whole cluster.
func (c *Client) SwitchJob(ctx context.Context, job string, on bool) error {
	body, err := json.Marshal(map[string]bool{"enabled": on})
	if err != nil {
		return fmt.Errorf("encode request: %w", err)
	}
	_, err = c.do(ctx, call{method: http.MethodPost, path: "/api/v1/cluster/leader/jobs/" + url.PathEscape(job), body: body})
	return err
}
