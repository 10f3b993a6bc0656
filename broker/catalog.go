package broker

import (
	"context"
	"maps"
	"strings"
	"sync"
	"time"

	"github.com/google/uuid"
	"go.uber.org/zap"

	"waggle/broker/segment"
	"waggle/pg"
)

type queueKey struct {
	tenant uuid.UUID
	name   string
}

// queue is one version of a queue row; it is never changed.
type queue struct {
	queueKey
	id        int64
	wire      uuid.UUID
	namespace string
	task      string
	options   Options
	version   int64
	format    int16
	activity  *activity
}

// partition is a partition row and, for its lane alone, what is known of its log.
type partition struct {
	id    int64
	queue int64
	name  string
	wire  uuid.UUID
	lane  *lane

	// The rest belongs to the lane's goroutine, or to the one that has taken the partition aside.
	window  *window
	packer  segment.Packer
	fresh   bool // the window was made for groups that have not used it yet
	aside   bool
	waiting []*pushGroup
	skips   int
	skipped time.Time
}

type partitionKey struct {
	queue int64
	name  string
}

// catalog remembers queues and partitions. It never answers that something does not exist: that takes a look at the
// database.
type catalog struct {
	b *Broker

	mu         sync.RWMutex // guards everything below
	queues     map[queueKey]*queueSlot
	byName     map[string]map[queueKey]struct{} // for hints without a tenant
	byID       map[int64]*queue
	partitions map[partitionKey]*partition
	partByID   map[int64]*partition
	// unknown is the generation of queues that have no slot.
	unknown uint64
}

// queueSlot outlives its queue: a read that began before the last invalidation must not be stored.
type queueSlot struct {
	generation uint64
	queue      *queue
}

// maxCatalog bounds the queues and the partitions that are remembered.
const maxCatalog = 1 << 20

func newCatalog(b *Broker) *catalog {
	c := &catalog{b: b}
	c.forget()
	return c
}

func (c *catalog) forget() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.forgetQueues()
	c.forgetPartitions()
}

func (c *catalog) forgetQueues() {
	c.queues, c.byID, c.byName = map[queueKey]*queueSlot{}, map[int64]*queue{}, map[string]map[queueKey]struct{}{}
	c.unknown++
}

func (c *catalog) forgetPartitions() {
	c.partitions, c.partByID = map[partitionKey]*partition{}, map[int64]*partition{}
}

func (c *catalog) cached(key queueKey) *queue {
	c.mu.RLock()
	defer c.mu.RUnlock()
	if slot := c.queues[key]; slot != nil {
		return slot.queue
	}
	return nil
}

// generation is to be read before the row that store will keep.
func (c *catalog) generation(key queueKey) uint64 {
	c.mu.RLock()
	defer c.mu.RUnlock()
	if slot := c.queues[key]; slot != nil {
		return slot.generation
	}
	return c.unknown
}

// invalidate makes the next use of the queue read its row.
func (c *catalog) invalidate(key queueKey) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.drop(key)
}

// drop is called with mu held.
func (c *catalog) drop(key queueKey) {
	c.unknown++
	slot := c.queues[key]
	if slot == nil {
		return
	}
	slot.generation = c.unknown
	if slot.queue != nil {
		delete(c.byID, slot.queue.id)
		slot.queue = nil
	}
}

// outdated invalidates the queue unless something else is remembered by now.
func (c *catalog) outdated(q *queue) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if slot := c.queues[q.queueKey]; slot != nil && slot.queue != nil && slot.queue.id == q.id && slot.queue.version <= q.version {
		c.drop(q.queueKey)
	}
}

// invalidateName drops every tenant's queue of that name, for hints that name no tenant.
func (c *catalog) invalidateName(name string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.unknown++
	for key := range c.byName[name] {
		c.drop(key)
	}
}

// store keeps a row unless its slot was invalidated after the given generation was read, or holds something newer.
func (c *catalog) store(row pg.Queue, generation uint64) *queue {
	options, err := parseOptions(row.Options)
	if err != nil {
		c.b.log.Warn("queue options unreadable, defaults used", zap.String("code", "WG0410"), zap.String("queue", row.Name), zap.Error(err))
	}
	q := &queue{
		queueKey: queueKey{row.Tenant, row.Name}, id: row.ID, wire: c.b.ids.Queue(row.ID), namespace: row.Namespace,
		task: row.Task, options: options, version: row.Version, format: row.WriteFormat, activity: c.b.activities.of(row.ID),
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	slot := c.queues[q.queueKey]
	if slot == nil {
		if len(c.queues) >= maxCatalog {
			c.forgetQueues()
		}
		if c.unknown != generation {
			return q
		}
		slot = &queueSlot{generation: generation}
		c.queues[q.queueKey] = slot
		if c.byName[q.name] == nil {
			c.byName[q.name] = map[queueKey]struct{}{}
		}
		c.byName[q.name][q.queueKey] = struct{}{}
	}
	if slot.generation != generation {
		return q
	}
	if old := slot.queue; old != nil {
		if old.id > q.id || old.id == q.id && old.version > q.version {
			return q
		}
		delete(c.byID, old.id)
	}
	slot.queue = q
	c.byID[q.id] = q
	return q
}

// find reads the queue's row unless it is remembered; nil when there is none.
func (c *catalog) find(ctx context.Context, key queueKey) (*queue, error) {
	if q := c.cached(key); q != nil {
		return q, nil
	}
	generation := c.generation(key)
	rows, err := c.b.db.FindQueues(ctx, []pg.QueueName{{Tenant: key.tenant, Name: key.name}})
	if err != nil || len(rows) == 0 {
		return nil, err
	}
	return c.store(rows[0], generation), nil
}

// ensure returns the queues of the keys, which are of one tenant, making those that are missing. With ErrLimit it
// returns those that there are.
func (c *catalog) ensure(ctx context.Context, keys []queueKey) (map[queueKey]*queue, error) {
	out := make(map[queueKey]*queue, len(keys))
	generations := map[queueKey]uint64{}
	var names []pg.QueueName
	for _, key := range keys {
		if q := c.cached(key); q != nil {
			out[key] = q
		} else if _, asked := generations[key]; !asked {
			generations[key] = c.generation(key)
			names = append(names, pg.QueueName{Tenant: key.tenant, Name: key.name})
		}
	}
	if len(names) == 0 {
		return out, nil
	}
	keep := func(rows []pg.Queue) {
		for _, row := range rows {
			key := queueKey{row.Tenant, row.Name}
			out[key] = c.store(row, generations[key])
		}
	}
	found, err := c.b.db.FindQueues(ctx, names)
	if err != nil {
		return nil, err
	}
	keep(found)
	var missing []pg.NewQueue
	for _, n := range names {
		if key := (queueKey{n.Tenant, n.Name}); out[key] == nil {
			missing = append(missing, newQueue(key))
		}
	}
	if len(missing) == 0 {
		return out, nil
	}
	if err := c.b.limits.admit(ctx, missing[0].Tenant, pg.TenantCounts{Queues: int64(len(missing))}); err != nil {
		return out, err
	}
	made, err := c.b.db.EnsureQueues(ctx, missing, []byte("{}"))
	if err != nil {
		return nil, err
	}
	keep(made)
	return out, nil
}

// newQueue derives namespace and task as the contract has it for queues that are not configured.
func newQueue(key queueKey) pg.NewQueue {
	q := pg.NewQueue{QueueName: pg.QueueName{Tenant: key.tenant, Name: key.name}}
	namespace, rest, dotted := strings.Cut(key.name, ".")
	q.Namespace = namespace
	if dotted {
		q.Task, _, _ = strings.Cut(rest, ".")
	}
	return q
}

// queuesByID returns those of the queues that are remembered or exist.
func (c *catalog) queuesByID(ctx context.Context, ids []int64) (map[int64]*queue, error) {
	out := make(map[int64]*queue, len(ids))
	var missing []int64
	c.mu.RLock()
	for _, id := range ids {
		if q := c.byID[id]; q != nil {
			out[id] = q
		} else {
			missing = append(missing, id)
		}
	}
	c.mu.RUnlock()
	if len(missing) == 0 {
		return out, nil
	}
	read, err := c.readByID(ctx, missing)
	maps.Copy(out, read)
	return out, err
}

// reload reads the row again, whatever is remembered; nil when the queue is gone.
func (c *catalog) reload(ctx context.Context, id int64) (*queue, error) {
	c.mu.Lock()
	if known := c.byID[id]; known != nil {
		c.drop(known.queueKey)
	}
	c.mu.Unlock()
	queues, err := c.readByID(ctx, []int64{id})
	return queues[id], err
}

func (c *catalog) readByID(ctx context.Context, ids []int64) (map[int64]*queue, error) {
	c.mu.RLock()
	before := c.unknown
	c.mu.RUnlock()
	rows, err := c.b.db.QueuesByID(ctx, ids)
	if err != nil {
		return nil, err
	}
	out := make(map[int64]*queue, len(rows))
	for _, row := range rows {
		// Which slot it is for was not known before the read: it is kept if nothing was invalidated since.
		generation := c.generation(queueKey{row.Tenant, row.Name})
		if generation > before {
			generation = 0
		}
		out[row.ID] = c.store(row, generation)
	}
	return out, nil
}

func (c *catalog) counts() (queues, partitions int) {
	c.mu.RLock()
	defer c.mu.RUnlock()
	return len(c.byID), len(c.partByID)
}
