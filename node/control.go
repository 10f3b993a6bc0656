package node

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"time"

	"go.uber.org/zap"

	"waggle/api"
	"waggle/pg"
)

// forwardTimeout bounds a call from this broker to the one that leads.
const forwardTimeout = 5 * time.Second

const (
	stepDownPath = "/api/v1/cluster/leader/step-down"
	jobPath      = "/api/v1/cluster/leader/jobs/"
)

// Jobs implements api.LeaderControl.
func (c *cluster) Jobs(ctx context.Context) ([]api.Job, error) {
	rows, err := c.db.ListJobs(ctx)
	if err != nil {
		return nil, err
	}
	jobs := make([]api.Job, len(rows))
	for i, row := range rows {
		jobs[i] = api.Job{
			Name: row.Name, Enabled: row.Enabled, NextDue: row.NextDue, LastStart: orZero(row.LastStart), LastSuccess: orZero(row.LastSuccess),
			LastFailure: orZero(row.LastFailure), LastError: row.LastError, LastRows: row.LastRows, RowsDone: row.RowsDone, MinBuild: row.MinBuild,
		}
	}
	return jobs, nil
}

func orZero(t *time.Time) time.Time {
	if t == nil {
		return time.Time{}
	}
	return *t
}

// SwitchJob implements api.LeaderControl. The leader finds out when it next looks at the job: before its next run.
func (c *cluster) SwitchJob(ctx context.Context, name string, on bool) error {
	err := c.db.SwitchJob(ctx, name, on)
	if errors.Is(err, pg.ErrNoJob) {
		return api.ErrNoJob
	}
	if err == nil {
		c.logger.Info("job switched", zap.String("job", name), zap.Bool("enabled", on))
		c.runner.Hurry(name)
	}
	return err
}

// RunJob implements api.LeaderControl. The request is stored, so it is no loss when the leader cannot be told: it looks
// again within half a minute.
func (c *cluster) RunJob(ctx context.Context, name string, caller api.Caller) error {
	on, err := c.db.HurryJob(ctx, name)
	switch {
	case errors.Is(err, pg.ErrNoJob):
		return api.ErrNoJob
	case err != nil:
		return err
	case !on:
		return api.ErrJobOff
	}
	c.runner.Hurry(name)
	if c.elector.Status().IsLeader || caller.Forwarded {
		return nil
	}
	if _, err := c.forward(ctx, jobPath+url.PathEscape(name)+"/run", caller); err != nil {
		c.logger.Info("the leader was not told to look at a job at once", zap.String("job", name), zap.Error(err))
	}
	return nil
}

// StepDown implements api.LeaderControl.
func (c *cluster) StepDown(ctx context.Context, caller api.Caller) (string, error) {
	if c.elector.Status().IsLeader {
		c.logger.Info("asked to step down")
		return c.config.Name, c.elector.Resign(ctx)
	}
	if caller.Forwarded {
		return "", api.ErrLeaderMoved
	}
	body, err := c.forward(ctx, stepDownPath, caller)
	if err != nil {
		return "", err
	}
	var answer struct{ SteppedDown string }
	if err := json.Unmarshal(body, &answer); err != nil {
		return "", fmt.Errorf("read the leader's answer: %w", err)
	}
	return answer.SteppedDown, nil
}

// forward passes a call on to the broker that leads, on behalf of its caller.
func (c *cluster) forward(ctx context.Context, path string, caller api.Caller) ([]byte, error) {
	leader := (*Node)(c).currentLeader()
	if leader == nil {
		return nil, api.ErrNoLeader
	}
	brokers, err := c.db.LiveBrokers(ctx)
	if err != nil {
		return nil, err
	}
	for _, b := range brokers {
		if b.StartID == leader.StartID {
			return post(ctx, b.HTTP+path, caller)
		}
	}
	return nil, api.ErrNoLeader
}

func post(ctx context.Context, address string, caller api.Caller) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, forwardTimeout)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, address, http.NoBody)
	if err != nil {
		return nil, fmt.Errorf("address the leader: %w", err)
	}
	request.Header.Set(api.ForwardedHeader, "1")
	if caller.Authorization != "" {
		request.Header.Set("Authorization", caller.Authorization)
	}
	response, err := forwarder.Do(request)
	if err != nil {
		return nil, fmt.Errorf("ask the leader: %w", err)
	}
	defer response.Body.Close()
	body, err := io.ReadAll(io.LimitReader(response.Body, 64<<10))
	switch {
	case err != nil:
		return nil, fmt.Errorf("read the leader's answer: %w", err)
	case response.StatusCode == http.StatusConflict:
		return nil, api.ErrLeaderMoved
	case response.StatusCode != http.StatusOK:
		return nil, fmt.Errorf("the leader at %s answered %d: %.200s", address, response.StatusCode, body)
	}
	return body, nil
}

// forwarder keeps no connection: such calls are seldom.
var forwarder = &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
