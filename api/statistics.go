package api

import (
	"encoding/json"
	"net/http"
	"time"

	"waggle/admin"
)

// marshal answers 200 with a value whose fields stand in the contract's order, or the error of reading it.
func (x *exchange) marshal(value any, err error) {
	var content []byte
	if err == nil {
		content, err = json.Marshal(value)
	}
	if err != nil {
		x.failBroker("statistics not read", err)
		return
	}
	x.json(http.StatusOK, content)
}

// window reads from and to, or answers 400. Without them it is the span up to now.
func (x *exchange) window(q query, span time.Duration) (admin.Window, bool) {
	now := time.Now()
	from, to := now.Add(-span), now
	for name, at := range map[string]*time.Time{"from": &from, "to": &to} {
		text := q.loose(name)
		if text == "" {
			continue
		}
		read, err := readTimestamp(name, text)
		if err != nil {
			x.fail(http.StatusBadRequest, err.Error(), "")
			return admin.Window{}, false
		}
		*at = read
	}
	if q.loose("from") == "" && q.loose("to") != "" {
		from = to.Add(-span)
	}
	return admin.NewWindow(from, to), true
}

// seriesFilter reads queue, namespace and task, or answers 400; scoped routes see their tenant only.
func (x *exchange) seriesFilter(q query, scoped bool) (f admin.SeriesFilter, ok bool) {
	for _, field := range [...]struct {
		name string
		to   **string
	}{{"queue", &f.Queue}, {"namespace", &f.Namespace}, {"task", &f.Task}} {
		text := q.loose(field.name)
		if text == "" {
			continue
		}
		if err := checkName(field.name, text); err != nil {
			x.fail(http.StatusBadRequest, err.Error(), "")
			return f, false
		}
		*field.to = &text
	}
	if scoped {
		tenant := x.tenant
		f.Tenant = &tenant
	}
	return f, true
}

// read is the common part of the routes that show a window of the tenant's numbers.
func (x *exchange) read(span time.Duration, show func(w admin.Window, f admin.SeriesFilter, q query)) {
	x.readSeries(span, true, show)
}

func (x *exchange) readSeries(span time.Duration, scoped bool, show func(w admin.Window, f admin.SeriesFilter, q query)) {
	q := parseQuery(x.r.URL.RawQuery)
	w, ok := x.window(q, span)
	if !ok {
		return
	}
	if f, ok := x.seriesFilter(q, scoped); ok {
		show(w, f, q)
	}
}

const (
	lastHour = time.Hour
	lastDay  = 24 * time.Hour
)

// showOverview is GET /api/v1/resources/overview.
func (s *Server) showOverview(x *exchange) {
	x.marshal(s.parts.Reads.Overview(x.r.Context(), x.tenant))
}

type labelMessages struct {
	Total   int64 `json:"total"`
	Pending int64 `json:"pending"`
}

// listNamespaces is GET /api/v1/resources/namespaces.
func (s *Server) listNamespaces(x *exchange) {
	type namespace struct {
		Namespace  string        `json:"namespace"`
		Queues     int           `json:"queues"`
		Partitions int64         `json:"partitions"`
		Messages   labelMessages `json:"messages"`
	}
	labels, err := s.parts.Reads.Labels(x.r.Context(), x.tenant, false)
	out := make([]namespace, len(labels))
	for i, l := range labels {
		out[i] = namespace{l.Name, l.Queues, l.Partitions, labelMessages{l.Total, l.Pending}}
	}
	x.marshal(struct {
		Namespaces []namespace `json:"namespaces"`
	}{out}, err)
}

// listTasks is GET /api/v1/resources/tasks.
func (s *Server) listTasks(x *exchange) {
	type task struct {
		Task       string        `json:"task"`
		Queues     int           `json:"queues"`
		Partitions int64         `json:"partitions"`
		Messages   labelMessages `json:"messages"`
	}
	labels, err := s.parts.Reads.Labels(x.r.Context(), x.tenant, true)
	out := make([]task, len(labels))
	for i, l := range labels {
		out[i] = task{l.Name, l.Queues, l.Partitions, labelMessages{l.Total, l.Pending}}
	}
	x.marshal(struct {
		Tasks []task `json:"tasks"`
	}{out}, err)
}

// refreshStatistics is POST /api/v1/stats/refresh; its body means nothing.
func (s *Server) refreshStatistics(x *exchange) { x.marshal(s.parts.Reads.Refresh(x.r.Context())) }

// showStatus is GET /api/v1/status, of the whole cluster.
func (s *Server) showStatus(x *exchange) {
	x.readSeries(lastHour, false, func(w admin.Window, f admin.SeriesFilter, _ query) {
		x.marshal(s.parts.Reads.Status(x.r.Context(), w, f))
	})
}

// listQueueStatus is GET /api/v1/status/queues.
func (s *Server) listQueueStatus(x *exchange) {
	x.read(lastHour, func(_ admin.Window, f admin.SeriesFilter, q query) {
		limit, offset := min(q.looseNumber("limit", 100), maxPage), q.looseNumber("offset", 0)
		queues, err := s.parts.Reads.QueueStatuses(x.r.Context(), x.tenant, f, limit, offset)
		type pagination struct {
			Limit  int `json:"limit"`
			Offset int `json:"offset"`
		}
		x.marshal(struct {
			Queues     []admin.QueueStatus `json:"queues"`
			Pagination pagination          `json:"pagination"`
		}{queues, pagination{limit, offset}}, err)
	})
}

// showBuffers is GET /api/v1/status/buffers: pushes go to the database at once, so there is nothing to spool.
func (s *Server) showBuffers(x *exchange) {
	healthy := s.parts.Health.Database(x.r.Context()) == nil
	x.answer(http.StatusOK, func(dst []byte) []byte {
		return append(appendFlag(dst, `{"pending":0,"failed":0,"dbHealthy":`, healthy), `,"worker":0}`...)
	})
}

// showAnalytics is GET /api/v1/status/analytics.
func (s *Server) showAnalytics(x *exchange) {
	x.read(lastDay, func(w admin.Window, f admin.SeriesFilter, q query) {
		interval := q.loose("interval")
		if interval == "" {
			interval = "hour"
		}
		if admin.Intervals[interval] == 0 {
			x.fail(http.StatusBadRequest, "interval must be minute, hour or day", "")
			return
		}
		x.marshal(s.parts.Reads.Analytics(x.r.Context(), w, f, interval))
	})
}

func (s *Server) showQueueLag(x *exchange) {
	x.read(lastHour, func(w admin.Window, f admin.SeriesFilter, _ query) {
		x.marshal(s.parts.Reads.QueueLag(x.r.Context(), w, f))
	})
}

func (s *Server) showQueueOps(x *exchange) {
	x.read(lastHour, func(w admin.Window, f admin.SeriesFilter, _ query) {
		x.marshal(s.parts.Reads.QueueOps(x.r.Context(), w, f))
	})
}

func (s *Server) showParkedReplicas(x *exchange) {
	x.read(lastHour, func(w admin.Window, f admin.SeriesFilter, _ query) {
		x.marshal(s.parts.Reads.ParkedReplicas(x.r.Context(), w, f))
	})
}

// showRetention is GET /api/v1/analytics/retention.
func (s *Server) showRetention(x *exchange) {
	x.read(lastHour, func(w admin.Window, f admin.SeriesFilter, q query) {
		var key func(*admin.CountedQueue) string
		if by := q.loose("groupBy"); by != "" {
			if key = admin.GroupKeys[by]; key == nil {
				x.fail(http.StatusBadRequest, "bad groupBy", "")
				return
			}
		}
		x.marshal(s.parts.Reads.Retention(x.r.Context(), w, f, key))
	})
}

// showWorkload is GET /api/v1/analytics/workload.
func (s *Server) showWorkload(x *exchange) {
	x.read(lastHour, func(w admin.Window, f admin.SeriesFilter, q query) {
		by := q.loose("groupBy")
		if by == "" {
			by = "queue"
		}
		if admin.GroupKeys[by] == nil {
			x.fail(http.StatusBadRequest, "bad groupBy", "")
			return
		}
		x.marshal(s.parts.Reads.Workload(x.r.Context(), w, f, by))
	})
}

const (
	defaultLiveness = 20
	maxLiveness     = 200
)

// showLiveness is GET /api/v1/analytics/partition-liveness.
func (s *Server) showLiveness(x *exchange) {
	q := parseQuery(x.r.URL.RawQuery)
	limit := max(min(q.looseNumber("limit", defaultLiveness), maxLiveness), 1)
	x.marshal(s.parts.Reads.Liveness(x.r.Context(), x.tenant, limit))
}

func (s *Server) showSystemMetrics(x *exchange) {
	x.read(lastHour, func(w admin.Window, _ admin.SeriesFilter, _ query) {
		x.marshal(s.parts.Reads.SystemMetrics(x.r.Context(), w))
	})
}

func (s *Server) showWorkerMetrics(x *exchange) {
	x.readSeries(lastHour, false, func(w admin.Window, f admin.SeriesFilter, _ query) {
		x.marshal(s.parts.Reads.WorkerMetrics(x.r.Context(), w, f))
	})
}

const defaultSignatures = 200

// showSignatures is GET /api/v1/analytics/dlq-signatures.
func (s *Server) showSignatures(x *exchange) {
	q := parseQuery(x.r.URL.RawQuery)
	queue := q.loose("queue")
	if queue == "" {
		x.fail(http.StatusBadRequest, "queue required", "")
		return
	}
	if err := checkName("queue", queue); err != nil {
		x.fail(http.StatusBadRequest, err.Error(), "")
		return
	}
	limit := max(min(q.looseNumber("limit", defaultSignatures), 1000), 1)
	x.marshal(s.parts.Reads.DeadLetterSignatures(x.r.Context(), x.tenant, queue, limit))
}

// showPostgres is GET /api/v1/analytics/postgres-stats.
func (s *Server) showPostgres(x *exchange) {
	object, err := s.parts.Reads.PostgresStats(x.r.Context())
	x.marshal(json.RawMessage(object), err)
}
