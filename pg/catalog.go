package pg

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
)

// QueueName identifies a queue for people.
type QueueName struct {
	Tenant uuid.UUID
	Name   string
}

// Queue is a queue row. Options is a JSON object with the options that were ever set.
type Queue struct {
	ID          int64
	Tenant      uuid.UUID
	Name        string
	Namespace   string
	Task        string
	Options     []byte
	Version     int64
	WriteFormat int16
}

// NewQueue is what a queue that a push or pop makes begins with.
type NewQueue struct {
	QueueName
	Namespace string
	Task      string
}

// PartitionName identifies a partition within a queue row.
type PartitionName struct {
	Queue int64
	Name  string
}

// Partition is a partition row.
type Partition struct {
	ID    int64
	Queue int64
	Name  string
}

func scanQueue(row pgx.CollectableRow) (q Queue, err error) {
	err = row.Scan(&q.ID, (*[16]byte)(&q.Tenant), &q.Name, &q.Namespace, &q.Task, &q.Options, &q.Version, &q.WriteFormat)
	return q, err
}

func scanPartition(row pgx.CollectableRow) (p Partition, err error) {
	err = row.Scan(&p.ID, &p.Queue, &p.Name)
	return p, err
}

// EnsureQueues makes the queues that are missing and returns all of them, in no order.
func (d *DB) EnsureQueues(ctx context.Context, queues []NewQueue, options []byte) ([]Queue, error) {
	names := make([]QueueName, len(queues))
	for i, q := range queues {
		names[i] = q.QueueName
	}
	found, err := d.FindQueues(ctx, names)
	if err != nil || len(found) == len(queues) {
		return found, err
	}
	var tenants [][16]byte
	var texts, namespaces, tasks []string
	for _, q := range queues {
		known := slices.ContainsFunc(found, func(f Queue) bool { return f.Tenant == q.Tenant && f.Name == q.Name })
		if !known {
			tenants, texts = append(tenants, q.Tenant), append(texts, q.Name)
			namespaces, tasks = append(namespaces, q.Namespace), append(tasks, q.Task)
		}
	}
	err = d.write(ctx, func(tx pgx.Tx) error {
		_, err := tx.Exec(ctx, statement("ensure_queues"), tenants, texts, namespaces, tasks, options)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("make queues: %w", err)
	}
	return d.FindQueues(ctx, names)
}

// FindQueues returns those of the queues that exist.
func (d *DB) FindQueues(ctx context.Context, names []QueueName) ([]Queue, error) {
	tenants, texts := make([][16]byte, len(names)), make([]string, len(names))
	for i, n := range names {
		tenants[i], texts[i] = n.Tenant, n.Name
	}
	return collect(ctx, d.pool, "find_queues", scanQueue, tenants, texts)
}

// QueuesByID returns those of the queues that still exist.
func (d *DB) QueuesByID(ctx context.Context, ids []int64) ([]Queue, error) {
	return collect(ctx, d.pool, "queues_by_id", scanQueue, ids)
}

// DiscoverQueues returns the tenant's queues with the namespace and task; nil binds nothing.
func (d *DB) DiscoverQueues(ctx context.Context, tenant uuid.UUID, namespace, task *string) ([]Queue, error) {
	return collect(ctx, d.pool, "discover_queues", scanQueue, [16]byte(tenant), namespace, task)
}

// Discovery is what a pop without a queue asks for; nil binds nothing.
type Discovery struct {
	Tenant          uuid.UUID
	Namespace, Task *string
}

// DiscoverNewest returns, at the same index, the row id of the newest queue that each discovery would find, 0 for
// none.
func (d *DB) DiscoverNewest(ctx context.Context, discoveries []Discovery) ([]int64, error) {
	tenants := make([][16]byte, len(discoveries))
	namespaces, tasks := make([]*string, len(discoveries)), make([]*string, len(discoveries))
	for i, a := range discoveries {
		tenants[i], namespaces[i], tasks[i] = a.Tenant, a.Namespace, a.Task
	}
	rows, err := d.pool.Query(ctx, statement("discover_newest"), tenants, namespaces, tasks)
	if err != nil {
		return nil, fmt.Errorf("discover newest: %w", err)
	}
	out := make([]int64, len(discoveries))
	var i int
	var newest int64
	if _, err = pgx.ForEachRow(rows, []any{&i, &newest}, func() error { out[i] = newest; return nil }); err != nil {
		return nil, fmt.Errorf("discover newest: %w", err)
	}
	return out, nil
}

// TenantCounts is how much of each a tenant has.
type TenantCounts struct {
	Queues, Partitions, Groups int64
}

// CountTenant counts what a tenant has. It reads that many index entries: callers remember the answer for a while.
func (d *DB) CountTenant(ctx context.Context, tenant uuid.UUID) (c TenantCounts, err error) {
	err = d.pool.QueryRow(ctx, statement("count_tenant"), [16]byte(tenant)).Scan(&c.Queues, &c.Partitions, &c.Groups)
	if err != nil {
		return c, fmt.Errorf("count what a tenant has: %w", err)
	}
	return c, nil
}

// EnsurePartitions makes the partitions that are missing and returns all whose queue still exists, in no order.
func (d *DB) EnsurePartitions(ctx context.Context, partitions []PartitionName) ([]Partition, error) {
	slices.SortFunc(partitions, func(a, b PartitionName) int {
		return cmp.Or(cmp.Compare(a.Queue, b.Queue), cmp.Compare(a.Name, b.Name))
	})
	found, err := d.FindPartitions(ctx, partitions)
	if err != nil || len(found) == len(partitions) {
		return found, err
	}
	queues, names := splitPartitionNames(partitions)
	err = d.write(ctx, func(tx pgx.Tx) error {
		held, err := collect(ctx, tx, "lock_queues", pgx.RowTo[int64], queues)
		if err != nil {
			return err
		}
		_, err = tx.Exec(ctx, statement("ensure_partitions"), queues, names, held)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("make partitions: %w", err)
	}
	return d.FindPartitions(ctx, partitions)
}

// FindPartitions returns those of the partitions that exist.
func (d *DB) FindPartitions(ctx context.Context, partitions []PartitionName) ([]Partition, error) {
	queues, names := splitPartitionNames(partitions)
	return collect(ctx, d.pool, "find_partitions", scanPartition, queues, names)
}

// PartitionsByID returns those of the partitions that still exist.
func (d *DB) PartitionsByID(ctx context.Context, ids []int64) ([]Partition, error) {
	return collect(ctx, d.pool, "partitions_by_id", scanPartition, ids)
}

func splitPartitionNames(partitions []PartitionName) (queues []int64, names []string) {
	queues, names = make([]int64, len(partitions)), make([]string, len(partitions))
	for i, p := range partitions {
		queues[i], names[i] = p.Queue, p.Name
	}
	return queues, names
}

// Configure makes the queue if it is missing and lets merge turn its row into the one to store, under the row's lock.
// created tells merge that nobody has set options before. The answer carries the new version.
func (d *DB) Configure(ctx context.Context, queue NewQueue, merge func(stored Queue, created bool) (Queue, error)) (Queue, error) {
	var out Queue
	err := d.write(ctx, func(tx pgx.Tx) error {
		tag, err := tx.Exec(ctx, statement("ensure_queues"), [][16]byte{queue.Tenant}, []string{queue.Name},
			[]string{queue.Namespace}, []string{queue.Task}, []byte("{}"))
		if err != nil {
			return err
		}
		rows, err := collect(ctx, tx, "configure_lock", scanQueue, [16]byte(queue.Tenant), queue.Name)
		if err != nil {
			return err
		}
		if len(rows) == 0 {
			return errQueueVanished
		}
		if out, err = merge(rows[0], tag.RowsAffected() == 1); err != nil {
			return err
		}
		return tx.QueryRow(ctx, statement("configure_write"), out.ID, out.Options, out.Namespace, out.Task).Scan(&out.Version)
	})
	if errors.Is(err, errQueueVanished) {
		return d.Configure(ctx, queue, merge)
	}
	return out, err
}

// errQueueVanished is a queue deleted between two statements of one transaction.
var errQueueVanished = errors.New("queue vanished")

// DeleteQueue removes the queue with its partitions, cursors, groups and dead letters; the leader purges its
// segments. It reports the row id, or 0 when there was none.
func (d *DB) DeleteQueue(ctx context.Context, name QueueName) (id int64, err error) {
	err = d.write(ctx, func(tx pgx.Tx) error {
		id = 0
		err := tx.QueryRow(ctx, statement("delete_queue_lock"), [16]byte(name.Tenant), name.Name).Scan(&id)
		if errors.Is(err, pgx.ErrNoRows) {
			return nil
		}
		if err != nil {
			return err
		}
		for _, step := range []string{
			"delete_queue_lock_partitions", "delete_queue_cursors", "delete_queue_stats", "delete_queue_partitions",
			"delete_queue_rest",
		} {
			if _, err := tx.Exec(ctx, statement(step), id); err != nil {
				return fmt.Errorf("%s: %w", step, err)
			}
		}
		return nil
	})
	return id, err
}
