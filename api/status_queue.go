package api

import (
	"net/http"

	"waggle/admin"
)

// describeQueueStatus is GET /api/v1/status/queues/:queue. includePartitions is accepted and changes nothing.
func (s *Server) describeQueueStatus(x *exchange) {
	var queue *admin.QueueDetail
	if name := x.names[0]; checkName("queue", name) == nil { // no other name can exist
		var err error
		if queue, err = s.parts.Reads.Queue(x.r.Context(), x.tenant, name); err != nil {
			x.failBroker("status of queue not read", err)
			return
		}
	}
	if queue == nil {
		x.fail(http.StatusNotFound, "Queue not found", "")
		return
	}
	config, err := queue.Config()
	x.marshal(newQueueStatus(queue, config), err)
}

type statusCounts struct {
	Total      int64 `json:"total"`
	Pending    int64 `json:"pending"`
	Processing int64 `json:"processing"`
	Completed  int64 `json:"completed"`
	Failed     int64 `json:"failed"`
	DeadLetter int64 `json:"deadLetter"`
}

func statusCountsOf(c *admin.Counts) statusCounts {
	return statusCounts{Total: c.Total, Pending: c.Pending, Processing: c.Processing, Completed: c.Completed, DeadLetter: c.DeadLetter}
}

type statusPartition struct {
	ID        string       `json:"id"`
	Name      string       `json:"name"`
	CreatedAt admin.Moment `json:"createdAt"`
	Messages  statusCounts `json:"messages"`
	Stats     statusCounts `json:"stats"`
	Cursor    struct {
		TotalConsumed   int64 `json:"totalConsumed"`
		BatchesConsumed int64 `json:"batchesConsumed"`
	} `json:"cursor"`
	LastActivity  admin.Moment `json:"lastActivity"`
	OldestMessage admin.Moment `json:"oldestMessage"`
	NewestMessage admin.Moment `json:"newestMessage"`
}

type queueStatus struct {
	Queue struct {
		ID        string             `json:"id"`
		Name      string             `json:"name"`
		Namespace string             `json:"namespace"`
		Task      string             `json:"task"`
		Priority  int64              `json:"priority"`
		CreatedAt admin.Moment       `json:"createdAt"`
		Config    admin.StatusConfig `json:"config"`
	} `json:"queue"`
	Partitions []statusPartition `json:"partitions"`
	Totals     struct {
		Messages statusCounts `json:"messages"`
	} `json:"totals"`
}

func newQueueStatus(q *admin.QueueDetail, config admin.StatusConfig) *queueStatus {
	s := &queueStatus{Partitions: make([]statusPartition, len(q.Partitions))}
	s.Queue.ID, s.Queue.Name, s.Queue.Namespace, s.Queue.Task = q.ID.String(), q.Name, q.Namespace, q.Task
	s.Queue.Priority, s.Queue.CreatedAt, s.Queue.Config = q.Priority, admin.Moment(q.CreatedAt), config
	for i := range q.Partitions {
		from, to := &q.Partitions[i], &s.Partitions[i]
		to.ID, to.Name, to.CreatedAt = from.ID.String(), from.Name, admin.Moment(from.CreatedAt)
		to.Messages = statusCountsOf(&from.Counts)
		to.Stats, to.Cursor.TotalConsumed = to.Messages, from.Counts.Completed
		to.LastActivity, to.OldestMessage, to.NewestMessage = admin.Moment(from.Newest), admin.Moment(from.Oldest), admin.Moment(from.Newest)
	}
	s.Totals.Messages = statusCountsOf(&q.Totals)
	return s
}
