package broker

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"github.com/google/uuid"
	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"
	"golang.org/x/sync/semaphore"

	"waggle/broker/seal"
	"waggle/broker/wireid"
	"waggle/pg"
)

// Hints tell other brokers what happened here. They are sent after the commit, never block, and may be lost.
type Hints interface {
	// Wake says that the partition may have something for its groups.
	Wake(tenant uuid.UUID, queue, partition string)
	// Invalidate says that the queue's options have a new version, or that the queue is gone.
	Invalidate(tenant uuid.UUID, queue string, version int64)
	// CursorsMoved says that the group's cursors in the queue were moved, or removed, by something else than consuming.
	CursorsMoved(tenant uuid.UUID, queue, group string)
}

// Config is what a broker is made of. Hints may be nil: then it has no peers to tell.
type Config struct {
	DB  *pg.DB
	IDs *wireid.Codec
	// Keys encrypt the payloads of queues that want it. Nil has none: pushes to such queues fail, and what others have
	// encrypted stays closed.
	Keys  *seal.Keyring
	Hints Hints
	// Interested is told of queues whose wakes begin to do something here, before anybody waits for them. It must not
	// block. Nil tells nobody.
	Interested func(tenant uuid.UUID, queue string)
	Logger     *zap.Logger
	Registerer prometheus.Registerer
	// Lanes is how many flushes of this broker may be in flight.
	Lanes int
	// SubscriptionMode is how a group starts whose first pop does not say.
	SubscriptionMode string
	// Autopilot says what becomes of the autopilot's choices; empty means on.
	Autopilot AutopilotMode
	// DedupBytes, TailBytes and LeaseBytes bound the caches; 0 takes the default.
	DedupBytes int
	TailBytes  int
	LeaseBytes int
	// AnswerBytes bounds the records that are being answered; 0 takes the default.
	AnswerBytes int
	// SafeFloor is how old the safe point of changed partitions may be before it is called degraded; 0 takes the default.
	SafeFloor time.Duration
	// Limits bound what a tenant may have.
	Limits Limits
	// FloorRaised is called when the database refused a flush because this build is too old for it. It must not block.
	FloorRaised func()
}

const (
	defaultDedupBytes = 256 << 20
	defaultTailBytes  = 128 << 20
	defaultLeaseBytes = 64 << 20
	// defaultAnswerBytes are handed out before further pops have to wait until clients have taken theirs.
	defaultAnswerBytes = 256 << 20
	// waitingBytes bounds the pushed bytes that wait in lanes; a push that finds no room waits admissionPatience.
	waitingBytes      = 256 << 20
	admissionPatience = 2 * time.Second
	defaultSafeFloor  = 30 * time.Second
)

// Broker serves the data plane of one process. It is safe for concurrent use.
type Broker struct {
	db      *pg.DB
	ids     *wireid.Codec
	hints   Hints
	log     *zap.Logger
	metrics *metrics
	config  Config

	catalog *catalog
	lanes   []*lane
	watch   *watch
	tail    *tailCache
	leases  *leaseMemory
	room    *room
	limits  *limiter
	alarms  alarms
	// solo bounds the flushes that may wait for a partition's lock, so that they leave connections to the lanes.
	solo chan struct{}
	// lookups bounds the searches for transaction ids beyond what is leased.
	lookups chan struct{}
	// unknown bounds the hints whose partitions are being asked for.
	unknown    chan struct{}
	tidings    *tidings
	activities *activities
	touched    *touched
	// failures counts flushes that the database did not take, bundled transactions that it did, both since they were
	// last asked for.
	failures, bundled atomic.Int64
	// fetching bounds the memory of reads by offset.
	fetching *semaphore.Weighted

	ctx    context.Context // ends with Close: for work that no caller waits for
	cancel context.CancelCauseFunc
	crew   *crew
}

const (
	// maxLookups searches for transaction ids may run at once.
	maxLookups = 3
	maxUnknown = 4
)

// errClosed ends what still runs when the broker is closed.
var errClosed = errors.New("broker closed")

type noHints struct{}

func (noHints) Wake(uuid.UUID, string, string)         {}
func (noHints) Invalidate(uuid.UUID, string, int64)    {}
func (noHints) CursorsMoved(uuid.UUID, string, string) {}

// New starts the lanes and the re-check of parked pops. Close ends them.
func New(config Config) *Broker {
	if config.Hints == nil {
		config.Hints = noHints{}
	}
	if config.Lanes <= 0 {
		config.Lanes = 2
	}
	if config.Autopilot == "" {
		config.Autopilot = AutopilotOn
	}
	orDefault(&config.DedupBytes, defaultDedupBytes)
	orDefault(&config.TailBytes, defaultTailBytes)
	orDefault(&config.LeaseBytes, defaultLeaseBytes)
	orDefault(&config.AnswerBytes, defaultAnswerBytes)
	if config.SafeFloor <= 0 {
		config.SafeFloor = defaultSafeFloor
	}
	b := &Broker{
		db: config.DB, ids: config.IDs, hints: config.Hints, log: config.Logger, config: config,
		tail: newTailCache(config.TailBytes), leases: newLeaseMemory(config.LeaseBytes), room: newRoom(waitingBytes),
		limits: newLimiter(config.DB, config.Limits), crew: newCrew(),
		solo: make(chan struct{}, max(config.DB.FlushConns()-config.Lanes, 1)), lookups: make(chan struct{}, maxLookups), unknown: make(chan struct{}, maxUnknown),
		tidings: newTidings(), activities: newActivities(), touched: newTouched(), fetching: semaphore.NewWeighted(fetchMemory),
	}
	b.ctx, b.cancel = context.WithCancelCause(context.Background())
	b.catalog = newCatalog(b)
	b.watch = newWatch(b)
	b.metrics = newMetrics(config.Registerer, b)
	for i := range config.Lanes {
		b.lanes = append(b.lanes, newLane(b, i, config.DedupBytes/config.Lanes))
	}
	for _, l := range b.lanes {
		b.spawn(l.run)
	}
	b.spawn(b.watch.run)
	b.spawn(b.tellTouched)
	config.DB.OnMoved(b.forget)
	return b
}

// spawn runs work that Close waits for; false once the broker has ended.
func (b *Broker) spawn(work func()) bool { return b.crew.spawn(work) }

// forget drops everything that was learned from another history of the database.
func (b *Broker) forget() {
	b.log.Warn("database history changed, caches emptied", zap.String("code", "WG0407"))
	b.catalog.forget()
	b.tail.forget()
	b.leases.forget()
	for _, l := range b.lanes {
		l.forget()
	}
	b.watch.forget()
}

// Close lets parked pops go, waits for flushes in flight and stops. Calls that come after fail.
func (b *Broker) Close() {
	b.config.DB.OnMoved(func() {})
	b.watch.drain(0)
	b.cancel(errClosed)
	for _, l := range b.lanes {
		l.stop()
	}
	b.crew.end()
}

// Drain lets parked pops go, spread over the given time, and makes new ones park for a second at most.
func (b *Broker) Drain(spread time.Duration) { b.watch.drain(spread) }

// TakeCounts is how many flushes the database did not take, and how many transactions it did, since the last call.
func (b *Broker) TakeCounts() (failures, transactions int64) {
	return b.failures.Swap(0), b.bundled.Swap(0)
}

// GiveBackCounts adds what could not be written, so that the next call returns it again.
func (b *Broker) GiveBackCounts(failures, transactions int64) {
	b.failures.Add(failures)
	b.bundled.Add(transactions)
}

// Parked is the number of pops that wait.
func (b *Broker) Parked() int { return b.watch.parkedCount() }
