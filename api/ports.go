package api

import (
	"context"
	"time"

	"github.com/google/uuid"

	"waggle/admin"
	"waggle/broker"
)

// Broker is the data plane. Its methods may be called from many requests at once.
type Broker interface {
	TraceWriter
	GroupActions
	DeadLetterActions

	// Push answers every item at its index. It copies what it keeps of the payloads.
	Push(ctx context.Context, tenant uuid.UUID, producerSub string, items []broker.PushItem) []broker.PushResult
	// Pop answers nil without an error when there is nothing; with Wait it parks first.
	Pop(ctx context.Context, request broker.PopRequest) (*broker.PopAnswer, error)
	// GiveBack returns an answer of which no byte was sent, at once and without charge.
	GiveBack(answer *broker.PopAnswer)
	// Ack answers every item at its index.
	Ack(ctx context.Context, tenant uuid.UUID, group string, items []broker.AckItem) []broker.AckResult
	// Transact does all operations or, with an error of type *broker.Rollback, none.
	Transact(ctx context.Context, t broker.Transaction) ([]broker.OperationResult, error)
	// Replay makes a dead letter a message again; broker.ErrNoDeadLetter when there is none.
	Replay(ctx context.Context, request broker.ReplayRequest) (broker.Replayed, error)
	// RegisterStream, StreamState and Cycle serve streams; broker.ErrNotFound is for what is not the tenant's.
	RegisterStream(ctx context.Context, q broker.StreamQuery, reset bool) (broker.StreamRegistration, error)
	StreamState(ctx context.Context, request broker.StateRequest) ([]broker.StateRow, error)
	Cycle(ctx context.Context, c broker.Cycle) (broker.CycleAnswer, error)
	Extend(ctx context.Context, tenant uuid.UUID, lease string, seconds int) (broker.ExtendResult, error)
	Configure(ctx context.Context, request broker.ConfigureRequest) (broker.ConfigureAnswer, error)
	DeleteQueue(ctx context.Context, tenant uuid.UUID, queue string) (existed bool, err error)
	// PopsPaused tells whether pops are kept empty.
	PopsPaused() bool
	// HandleWake takes a hint that a queue, or a partition of it, may have something; without a tenant for all of them.
	HandleWake(tenant *uuid.UUID, queue, partition string)
	// Fetch reads logs by offset; release must be called once the answer has been written.
	Fetch(ctx context.Context, request broker.FetchRequest) (answers []broker.Fetched, release func(), err error)
	Changed(ctx context.Context, tenant uuid.UUID, entries []broker.ChangedEntry) (broker.Changes, error)
}

// Reads is the read side that people and dashboards use. *admin.Reader is it.
type Reads interface {
	StatisticsReads
	TraceReads
	GroupReads
	MessageReads

	Queues(ctx context.Context, tenant uuid.UUID) ([]admin.QueueSummary, error)
	// Queue answers nil without an error when there is no such queue.
	Queue(ctx context.Context, tenant uuid.UUID, name string) (*admin.QueueDetail, error)
	DeadLetters(ctx context.Context, tenant uuid.UUID, filter admin.DeadLetterFilter) ([]admin.DeadLetter, error)
}

// Cluster is what this broker knows of the others.
type Cluster interface {
	View(ctx context.Context) (ClusterView, error)
	// Leader is nil while there is none, as far as this broker knows.
	Leader() *Leader
	// Exchange is nil where brokers do not talk to each other.
	Exchange() *Exchange
	Mesh() MeshStatus
	LeaderControl
}

// Exchange is what this broker and its peers have told each other since it started.
type Exchange struct {
	Port int
	// Peers are the addresses of the others that are there. Alive counts them, Dead those that went without a word and are
	// still remembered.
	Peers []string
	Alive int
	Dead  int

	Sent     int64
	Received int64
	Dropped  int64
	// BadSignatures are packets that no key of this broker opens, BadHandshakes those of another cluster.
	BadSignatures int64
	BadHandshakes int64
}

// ClusterView is the answer of GET /api/v1/cluster. Members include this broker.
type ClusterView struct {
	Self       string
	ClusterID  string
	Members    []Member
	Leader     *Leader
	Registered int
}

// Member is one broker as this one sees it. State is alive, suspect, left or dead.
type Member struct {
	Name        string
	StartID     string
	State       string
	Version     string
	HTTP        string
	FrameMin    int
	FrameMax    int
	SchemaKnows int
	SchemaNeeds int
	Leader      bool
	Draining    bool
}

// Leader is who does the background work.
type Leader struct {
	Name    string
	StartID string
	Epoch   int64
	Since   time.Time
	IsSelf  bool
}

// Health is how this broker is.
type Health interface {
	// Database does a round trip to the database.
	Database(ctx context.Context) error
	Readiness() Readiness
}

// Readiness says whether this broker should get traffic, and if not, why: Code is a WG code where one applies.
type Readiness struct {
	Ready  bool
	Code   string
	Reason string
}
