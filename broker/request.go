package broker

import (
	"time"

	"github.com/google/uuid"
)

// DefaultTenant owns every request that names no tenant.
var DefaultTenant = uuid.MustParse("00000000-0000-0000-0000-000000000001")

const (
	// QueueMode is the consumer group of pops that name none.
	QueueMode = "__QUEUE_MODE__"
	// DefaultPartition takes the pushes that name no partition.
	DefaultPartition = "Default"
)

// PushItem is one message of a push. Payload is validated JSON and is copied before Push returns.
type PushItem struct {
	Queue         string
	Partition     string
	Payload       []byte
	TransactionID string
	// HasTransactionID tells an empty transaction id, taken literally, from an absent one.
	HasTransactionID bool
	// TraceID is kept with the message; only transactions set it.
	TraceID uuid.UUID
}

// PushStatus is what became of one item.
type PushStatus string

// The statuses of section 4.1 of the contract.
const (
	Queued    PushStatus = "queued"
	Duplicate PushStatus = "duplicate"
	Buffered  PushStatus = "buffered"
	Failed    PushStatus = "failed"
)

// PushResult stands at the same index as its item. TransactionID equals the message id where the caller gave none.
type PushResult struct {
	MessageID     uuid.UUID
	TransactionID string
	Status        PushStatus
}

// PopRequest asks for messages of one partition (Pinned), of one queue, or of all queues with the given
// namespace and task (Discovery).
type PopRequest struct {
	Tenant    uuid.UUID
	Queue     string
	Partition string
	Pinned    bool

	Discovery bool
	Namespace *string
	Task      *string

	// Group is empty for queue mode.
	Group string
	// Batch caps the messages of the whole answer; below 1 counts as 1.
	Batch int
	// Partitions caps how many partitions one answer may claim; 0 and below mean no cap.
	Partitions int
	Wait       bool
	Timeout    time.Duration
	AutoAck    bool
	// LeaseSeconds overrides the queue's lease time when positive.
	LeaseSeconds     int
	SubscriptionMode string
	SubscriptionFrom string
	// Conflation is what the request says of the group's policy, nil for nothing: the stored policy counts. At the
	// first registration it is stored.
	Conflation *bool
	// BatchDefault and PartitionsDefault say that the request did not name the number: Batch and Partitions hold the
	// defaults, and the group's policy may put others in their place.
	BatchDefault      bool
	PartitionsDefault bool
	// Autopilot lets the broker choose what the request did not name.
	Autopilot bool
}

// conflates says that the request asks for conflation.
func (r *PopRequest) conflates() bool { return r.Conflation != nil && *r.Conflation }

// PopAnswer holds at least one part, or none where a conflating group had nothing to get; every other pop that finds
// nothing has no answer. Release must be called once it has been written.
type PopAnswer struct {
	// Lease is the zero UUID with AutoAck.
	Lease uuid.UUID
	Group string
	Parts []PopPart
	// Conflation says that each part holds only the newest message of its partition, ConflationConflict that the
	// request said otherwise of the group than what is stored.
	Conflation         bool
	ConflationConflict bool
	// Paused says that there is nothing because pops are paused; only conflating pops are told.
	Paused bool
	// Autopilot is set where the autopilot has chosen.
	Autopilot *Piloted

	handed *handedOut
}

// PopPart is what one partition gave, in offset order.
type PopPart struct {
	Queue       string
	Partition   string
	PartitionID uuid.UUID
	// Attempt is which delivery it is of the first Repeated messages; that of the others is the first.
	Attempt  int
	Repeated int
	Messages []Message
}

// Message is one delivered record. Payload, TransactionID and ProducerSub must not be changed: they are shared
// with other readers.
type Message struct {
	ID            uuid.UUID
	TransactionID string
	// TraceID is the zero UUID when there is none.
	TraceID     uuid.UUID
	ProducerSub string
	CreatedAt   time.Time
	Payload     []byte
}

// AckStatus is what a consumer says of a message.
type AckStatus uint8

// The statuses of section 4.5 of the contract.
const (
	AckCompleted AckStatus = iota
	AckFailed
	AckRetry
	AckDLQ
)

// AckItem names a message by partition and transaction id. PartitionID and Lease are text as the client sent them.
type AckItem struct {
	TransactionID string
	PartitionID   string
	Status        AckStatus
	// Lease is empty for an ack that is not checked against a lease.
	Lease string
	Error string
}

// AckResult stands at the same index as its item. Error is empty on success.
type AckResult struct {
	Success       bool
	Error         string
	LeaseReleased bool
	DLQ           bool
	Noop          bool
	// Conflated marks accepted acks of a conflating group.
	Conflated bool
}

// ExtendResult tells how many cursors a lease extension renewed and the earliest of their new expiries.
type ExtendResult struct {
	Renewed   int
	ExpiresAt time.Time
}

// ConfigureRequest creates a queue or changes its options. Options holds what the request sent: a nil value
// sets an option back to its default, an absent key keeps it (or sets it back with Replace).
type ConfigureRequest struct {
	Tenant    uuid.UUID
	Queue     string
	Namespace *string
	Task      *string
	Options   map[string]any
	Replace   bool
	// IfVersion, when not zero, makes the call fail with ErrVersionConflict unless the stored options have it.
	IfVersion int64
}

// ConfigureAnswer is the stored state after the call.
type ConfigureAnswer struct {
	QueueID   uuid.UUID
	Namespace string
	Task      string
	// Options holds every option key this build knows.
	Options        map[string]any
	OptionsVersion int64
	// Ignored lists sent keys that this build does not know.
	Ignored []string
}
