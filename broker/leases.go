package broker

import (
	"container/list"
	"slices"
	"sync"

	"github.com/google/uuid"
)

// leaseMemory knows what this broker handed out under which lease, so that acks need not look their offsets up. It
// only saves the look: the cursor's row decides whether the lease still holds.
type leaseMemory struct {
	mu     sync.Mutex // guards everything below
	budget int
	bytes  int
	leases map[uuid.UUID]*heldLease
	order  *list.List // newest first
}

type heldLease struct {
	id      uuid.UUID
	parts   []heldPart
	element *list.Element
}

// heldPart is what a lease holds of one cursor: the ids of the records from first on. Up to low they are acked already.
type heldPart struct {
	partition *partition
	queue     *queue
	group     int64
	groupName string
	conflates bool
	cursor    int64
	first     int64
	last      int64
	low       int64
	ids       []byte
}

func newLeaseMemory(budget int) *leaseMemory {
	m := &leaseMemory{budget: budget}
	m.forget()
	return m
}

func (m *leaseMemory) forget() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.leases, m.order, m.bytes = map[uuid.UUID]*heldLease{}, list.New(), 0
}

func (h *heldLease) cost() int {
	n := 200
	for i := range h.parts {
		n += 120 + len(h.parts[i].ids)
	}
	return n
}

func (m *leaseMemory) add(id uuid.UUID, parts []heldPart) {
	h := &heldLease{id: id, parts: slices.Clone(parts)}
	m.mu.Lock()
	defer m.mu.Unlock()
	h.element = m.order.PushFront(h)
	m.leases[id] = h
	m.bytes += h.cost()
	for m.bytes > m.budget && m.order.Len() > 1 {
		m.drop(m.order.Back().Value.(*heldLease))
	}
}

func (m *leaseMemory) drop(h *heldLease) {
	m.order.Remove(h.element)
	delete(m.leases, h.id)
	m.bytes -= h.cost()
}

// find returns what the lease holds of the partition for the group.
func (m *leaseMemory) find(id uuid.UUID, partition int64, group string) (heldPart, bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	h := m.leases[id]
	if h == nil {
		return heldPart{}, false
	}
	for _, p := range h.parts {
		if p.partition.id == partition && p.groupName == group {
			return p, true
		}
	}
	return heldPart{}, false
}

// end forgets one cursor of a lease.
func (m *leaseMemory) end(id uuid.UUID, cursor int64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	h := m.leases[id]
	if h == nil {
		return
	}
	if len(h.parts) == 1 {
		if h.parts[0].cursor == cursor {
			m.drop(h)
		}
		return
	}
	m.bytes -= h.cost()
	for i := range h.parts {
		if h.parts[i].cursor == cursor {
			h.parts = append(h.parts[:i:i], h.parts[i+1:]...)
			break
		}
	}
	m.bytes += h.cost()
}

// advance notes that the cursor's records up to low are acked.
func (m *leaseMemory) advance(id uuid.UUID, cursor, low int64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if h := m.leases[id]; h != nil {
		for i := range h.parts {
			if p := &h.parts[i]; p.cursor == cursor {
				p.low = max(p.low, low)
			}
		}
	}
}

func (m *leaseMemory) stats() (bytes, leases int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.bytes, len(m.leases)
}
