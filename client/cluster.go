package client

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
)

// Health is one broker's answer to /health.
type Health struct {
	// URL is the broker that was asked.
	URL      string `json:"url"`
	Status   string `json:"status"`
	Database string `json:"database"`
	Engine   string `json:"engine"`
	Version  string `json:"version"`
	// Err is set, and the rest mostly empty, when the broker did not answer or is not healthy.
	Err error `json:"-"`
}

// Health asks every broker of the configuration, once each and without fail-over.
func (c *Client) Health(ctx context.Context) []Health {
	all := make([]Health, len(c.servers))
	done := make(chan struct{})
	for i, s := range c.servers {
		go func() {
			defer func() { done <- struct{}{} }()
			all[i] = c.health(ctx, s)
		}()
	}
	for range c.servers {
		<-done
	}
	return all
}

func (c *Client) health(ctx context.Context, s *server) Health {
	h := Health{URL: s.base}
	got, err := c.try(ctx, s, call{method: http.MethodGet, path: "/health"})
	if err != nil {
		var refused *Error
		if errors.As(err, &refused) {
			h.Status = "unhealthy"
		}
		h.Err = shorten(err)
		return h
	}
	if err := json.Unmarshal(got.body, &h); err != nil {
		h.Err = fmt.Errorf("decode health: %w", err)
	}
	return h
}

// Cluster is the cluster as one broker sees it.
type Cluster struct {
	Self       string   `json:"self"`
	ClusterID  string   `json:"clusterId"`
	Members    []Member `json:"members"`
	Leader     *Leader  `json:"leader"`
	Registered int      `json:"registered"`
}

// Member is one broker of a Cluster.
type Member struct {
	Name    string `json:"name"`
	StartID string `json:"startId"`
	// State is alive, suspect, left or dead.
	State   string `json:"state"`
	Version string `json:"version"`
	HTTP    string `json:"http"`
	Frames  struct {
		Min int `json:"min"`
		Max int `json:"max"`
	} `json:"frames"`
	Schema struct {
		Knows int `json:"knows"`
		Needs int `json:"needs"`
	} `json:"schema"`
	Leader   bool `json:"leader"`
	Draining bool `json:"draining"`
}

// Leader is the broker that does the background work.
type Leader struct {
	Name  string `json:"name"`
	Epoch int64  `json:"epoch"`
}

// Cluster asks one broker for its view of the cluster.
func (c *Client) Cluster(ctx context.Context) (Cluster, error) {
	var got Cluster
	_, err := c.doJSON(ctx, call{method: http.MethodGet, path: "/api/v1/cluster"}, &got)
	return got, err
}
