package api

import "time"

// Process is what /metrics shows of this process.
type Process interface {
	ProcessMetrics() ProcessMetrics
}

// ProcessMetrics are a few numbers of this process; memory in bytes.
type ProcessMetrics struct {
	Uptime             time.Duration
	Requests, Messages int64
	PoolSize, PoolIdle int64
	Resident           int64
	HeapTotal          int64
	HeapUsed           int64
	CPUUser, CPUSystem time.Duration
}

// showMetrics is GET /metrics: numbers for people and old dashboards. CPU times are microseconds.
func (s *Server) showMetrics(x *exchange) {
	m := s.parts.Process.ProcessMetrics()
	type totals struct {
		Total int64   `json:"total"`
		Rate  float64 `json:"rate"`
	}
	type database struct {
		PoolSize        int64 `json:"poolSize"`
		IdleConnections int64 `json:"idleConnections"`
		WaitingRequests int64 `json:"waitingRequests"`
	}
	type memory struct {
		RSS          int64 `json:"rss"`
		HeapTotal    int64 `json:"heapTotal"`
		HeapUsed     int64 `json:"heapUsed"`
		External     int64 `json:"external"`
		ArrayBuffers int64 `json:"arrayBuffers"`
	}
	type cpu struct {
		User   int64 `json:"user"`
		System int64 `json:"system"`
	}
	x.marshal(struct {
		Uptime   float64  `json:"uptime"`
		Requests totals   `json:"requests"`
		Messages totals   `json:"messages"`
		Database database `json:"database"`
		Memory   memory   `json:"memory"`
		CPU      cpu      `json:"cpu"`
	}{
		m.Uptime.Seconds(),
		totals{Total: m.Requests},
		totals{Total: m.Messages},
		database{m.PoolSize, m.PoolIdle, 0},
		memory{RSS: m.Resident, HeapTotal: m.HeapTotal, HeapUsed: m.HeapUsed},
		cpu{m.CPUUser.Microseconds(), m.CPUSystem.Microseconds()},
	}, nil)
}
