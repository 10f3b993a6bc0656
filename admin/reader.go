package admin

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/google/uuid"
	"go.uber.org/zap"

	"waggle/broker/seal"
	"waggle/broker/wireid"
	"waggle/pg"
)

// ResolveOptions turns the options object that a queue row holds into all options that there are, with defaults.
type ResolveOptions func(stored []byte) (map[string]any, error)

// Reader answers what the resource routes ask. It is safe for concurrent use.
type Reader struct {
	db      *pg.DB
	ids     *wireid.Codec
	options ResolveOptions
	keys    *seal.Keyring // WithKeys
	logger  *zap.Logger   // WithKeys
}

// NewReader makes a reader. The data plane says how options resolve.
func NewReader(db *pg.DB, ids *wireid.Codec, options ResolveOptions) *Reader {
	return &Reader{db: db, ids: ids, options: options}
}

// queryTimeout ends a question that would keep a connection from the data plane for too long.
const queryTimeout = 15 * time.Second

// QueueIdentity is what names a queue.
type QueueIdentity struct {
	ID        uuid.UUID
	Name      string
	Namespace string
	Task      string
	CreatedAt time.Time
}

// QueueSummary is a queue in a list. Messages counts what is retained; a message is pending until every named group,
// or queue mode where no group is named, has consumed it, except while it is inside a live lease: then it is
// processing.
type QueueSummary struct {
	QueueIdentity
	Partitions    int64
	RetainedBytes int64
	Segments      int64
	Messages      int64
	Pending       int64
	Processing    int64
}

// Counts are the numbers of a partition or a queue. Total = Pending + Processing + Completed: all that is retained.
type Counts struct {
	Total      int64
	Pending    int64
	Processing int64
	Completed  int64
	DeadLetter int64
}

// QueueDetail is all there is to say about one queue.
type QueueDetail struct {
	QueueIdentity
	// Options is a JSON object with every option.
	Options        []byte
	OptionsVersion int64
	Priority       int64
	Partitions     []PartitionDetail
	Totals         Counts
	RetainedBytes  int64
	Segments       int64
}

// PartitionDetail is one partition of a QueueDetail. Oldest and Newest are the times of its first and last retained
// segment, zero when nothing is retained.
type PartitionDetail struct {
	ID        uuid.UUID
	Name      string
	CreatedAt time.Time
	Counts    Counts
	Oldest    time.Time
	Newest    time.Time
}

// Queues lists the queues of a tenant, newest first, with the numbers of the last statistics pass.
func (r *Reader) Queues(ctx context.Context, tenant uuid.UUID) ([]QueueSummary, error) {
	ctx, cancel := context.WithTimeout(ctx, queryTimeout)
	defer cancel()
	rows, err := r.db.ListQueues(ctx, tenant, nil)
	if err != nil {
		return nil, failed("list queues", err)
	}
	ids := make([]int64, len(rows))
	for i, row := range rows {
		ids[i] = row.ID
	}
	counted, err := r.db.QueueCounts(ctx, ids)
	if err != nil {
		return nil, failed("read counters", err)
	}
	byQueue := make(map[int64]*pg.QueueCounts, len(counted))
	for i := range counted {
		byQueue[counted[i].Queue] = &counted[i]
	}
	queues := make([]QueueSummary, len(rows))
	for i := range rows {
		queues[i].QueueIdentity = r.identify(&rows[i])
		if n := byQueue[rows[i].ID]; n != nil {
			queues[i].Partitions, queues[i].RetainedBytes = n.Partitions, n.Bytes
			queues[i].Segments, queues[i].Messages = n.Segments, n.Messages
			queues[i].Pending, queues[i].Processing = n.Pending, n.Processing
		}
	}
	return queues, nil
}

// Queue describes one queue, or returns nil when the tenant has none of that name.
func (r *Reader) Queue(ctx context.Context, tenant uuid.UUID, name string) (*QueueDetail, error) {
	ctx, cancel := context.WithTimeout(ctx, queryTimeout)
	defer cancel()
	rows, err := r.db.ListQueues(ctx, tenant, &name)
	if err != nil {
		return nil, failed("find queue", err)
	}
	if len(rows) == 0 {
		return nil, nil
	}
	row := &rows[0]
	queue := &QueueDetail{QueueIdentity: r.identify(row), OptionsVersion: row.Version}
	if queue.Options, queue.Priority, err = r.resolve(row.Options); err != nil {
		return nil, failed("read options", err)
	}
	partitions, err := r.db.ListPartitions(ctx, row.ID)
	if err != nil {
		return nil, failed("list partitions", err)
	}
	counted, err := r.db.CountMessages(ctx, []int64{row.ID}, true)
	if err != nil {
		return nil, failed("count messages", err)
	}
	byPartition := make(map[int64]*pg.MessageCounts, len(counted))
	for i := range counted {
		byPartition[counted[i].Partition] = &counted[i]
	}
	queue.Partitions = make([]PartitionDetail, len(partitions))
	for i, p := range partitions {
		detail := &queue.Partitions[i]
		detail.ID, detail.Name, detail.CreatedAt = r.ids.Partition(p.ID), p.Name, p.CreatedAt
		if n := byPartition[p.ID]; n != nil {
			queue.add(detail, n)
		}
	}
	return queue, nil
}

// add fills a partition's numbers and sums them up.
func (q *QueueDetail) add(partition *PartitionDetail, n *pg.MessageCounts) {
	partition.Counts = Counts{
		Total: n.Messages, Pending: n.Pending, Processing: n.Processing, Completed: n.Completed, DeadLetter: n.DeadLetter,
	}
	if n.Oldest != nil && n.Newest != nil {
		partition.Oldest, partition.Newest = *n.Oldest, *n.Newest
	}
	q.Totals.Total += n.Messages
	q.Totals.Pending += n.Pending
	q.Totals.Processing += n.Processing
	q.Totals.Completed += n.Completed
	q.Totals.DeadLetter += n.DeadLetter
	q.RetainedBytes += n.Bytes
	q.Segments += n.Segments
}

func (r *Reader) identify(row *pg.ListedQueue) QueueIdentity {
	return QueueIdentity{
		ID: r.ids.Queue(row.ID), Name: row.Name, Namespace: row.Namespace, Task: row.Task, CreatedAt: row.CreatedAt,
	}
}

func (r *Reader) resolve(stored []byte) (options []byte, priority int64, err error) {
	all, err := r.options(stored)
	if err != nil {
		return nil, 0, err
	}
	if options, err = json.Marshal(all); err != nil {
		return nil, 0, err
	}
	var known struct {
		Priority int64 `json:"priority"`
	}
	return options, known.Priority, json.Unmarshal(options, &known)
}

// readError is a question that got no answer.
type readError struct {
	doing string
	cause error
}

func failed(doing string, cause error) error { return &readError{doing: doing, cause: cause} }

func (e *readError) Error() string { return fmt.Sprintf("%s: %v", e.doing, e.cause) }

func (e *readError) Unwrap() error { return e.cause }

// Unavailable tells that the database could not be reached at all.
func (e *readError) Unavailable() bool { return pg.Unreachable(e.cause) }
