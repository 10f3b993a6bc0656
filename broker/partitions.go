package broker

import (
	"context"

	"github.com/google/uuid"

	"waggle/pg"
)

func (c *catalog) cachedPartition(key partitionKey) *partition {
	c.mu.RLock()
	defer c.mu.RUnlock()
	return c.partitions[key]
}

func (c *catalog) storePartition(row pg.Partition) *partition {
	c.mu.Lock()
	defer c.mu.Unlock()
	if p := c.partByID[row.ID]; p != nil {
		return p
	}
	if len(c.partByID) >= maxCatalog {
		c.forgetPartitions() // lanes keep those that they work on; the rest is read again when it is used
	}
	p := &partition{
		id: row.ID, queue: row.Queue, name: row.Name, wire: c.b.ids.Partition(row.ID),
		lane: c.b.lanes[row.ID%int64(len(c.b.lanes))],
	}
	c.partitions[partitionKey{row.Queue, row.Name}] = p
	c.partByID[row.ID] = p
	return p
}

// dropPartition forgets a partition whose row is gone.
func (c *catalog) dropPartition(p *partition) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.partByID[p.id] == p {
		delete(c.partitions, partitionKey{p.queue, p.name})
		delete(c.partByID, p.id)
	}
}

// ensurePartitions returns the partitions, making those that are missing; those of a queue that is gone are left out.
// All queues are the tenant's. With ErrLimit it returns those that there are.
func (c *catalog) ensurePartitions(ctx context.Context, tenant uuid.UUID, keys []partitionKey) (map[partitionKey]*partition, error) {
	out, err := c.findPartitions(ctx, keys)
	if err != nil || len(out) == len(keys) {
		return out, err
	}
	missing := make([]pg.PartitionName, 0, len(keys)-len(out))
	for _, key := range keys {
		if out[key] == nil {
			missing = append(missing, pg.PartitionName{Queue: key.queue, Name: key.name})
		}
	}
	if err := c.b.limits.admit(ctx, tenant, pg.TenantCounts{Partitions: int64(len(missing))}); err != nil {
		return out, err
	}
	rows, err := c.b.db.EnsurePartitions(ctx, missing)
	if err != nil {
		return nil, err
	}
	for _, row := range rows {
		c.b.activities.of(row.Queue).partitions.Add(1)
		out[partitionKey{row.Queue, row.Name}] = c.storePartition(row)
	}
	return out, nil
}

// findPartitions returns those of the partitions that exist. The keys differ.
func (c *catalog) findPartitions(ctx context.Context, keys []partitionKey) (map[partitionKey]*partition, error) {
	out := make(map[partitionKey]*partition, len(keys))
	var missing []pg.PartitionName
	for _, key := range keys {
		if p := c.cachedPartition(key); p != nil {
			out[key] = p
		} else {
			missing = append(missing, pg.PartitionName{Queue: key.queue, Name: key.name})
		}
	}
	if len(missing) == 0 {
		return out, nil
	}
	rows, err := c.b.db.FindPartitions(ctx, missing)
	if err != nil {
		return nil, err
	}
	for _, row := range rows {
		out[partitionKey{row.Queue, row.Name}] = c.storePartition(row)
	}
	return out, nil
}

// partitionsByID returns those of the partitions that are remembered or exist.
func (c *catalog) partitionsByID(ctx context.Context, ids []int64) (map[int64]*partition, error) {
	out := make(map[int64]*partition, len(ids))
	var missing []int64
	c.mu.RLock()
	for _, id := range ids {
		if p := c.partByID[id]; p != nil {
			out[id] = p
		} else {
			missing = append(missing, id)
		}
	}
	c.mu.RUnlock()
	if len(missing) == 0 {
		return out, nil
	}
	rows, err := c.b.db.PartitionsByID(ctx, missing)
	if err != nil {
		return nil, err
	}
	for _, row := range rows {
		out[row.ID] = c.storePartition(row)
	}
	return out, nil
}
