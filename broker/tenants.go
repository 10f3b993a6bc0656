package broker

import "github.com/google/uuid"

// tenantQueues takes turns between tenants: within one, groups leave in the order they came.
type tenantQueues struct {
	byTenant map[uuid.UUID]*tenantQueue
	turns    []*tenantQueue
	at       int
}

type tenantQueue struct {
	tenant uuid.UUID
	groups []*pushGroup
	head   int
}

func (t *tenantQueues) of(tenant uuid.UUID) *tenantQueue {
	q := t.byTenant[tenant]
	if q == nil {
		if t.byTenant == nil {
			t.byTenant = map[uuid.UUID]*tenantQueue{}
		}
		q = &tenantQueue{tenant: tenant}
		t.byTenant[tenant] = q
		t.turns = append(t.turns, q)
	}
	return q
}

func (t *tenantQueues) add(g *pushGroup) {
	q := t.of(g.queue.tenant)
	if q.head > 64 && q.head > len(q.groups)/2 {
		// What has left takes more room than what is there.
		n := copy(q.groups, q.groups[q.head:])
		clear(q.groups[n:])
		q.groups, q.head = q.groups[:n], 0
	}
	q.groups = append(q.groups, g)
}

// addFront puts the groups before all others of their tenants, in the order given.
func (t *tenantQueues) addFront(groups []*pushGroup) {
	byTenant := map[uuid.UUID][]*pushGroup{}
	for _, g := range groups {
		byTenant[g.queue.tenant] = append(byTenant[g.queue.tenant], g)
	}
	for tenant, first := range byTenant {
		q := t.of(tenant)
		if q.head >= len(first) {
			q.head -= len(first)
			copy(q.groups[q.head:], first)
			continue
		}
		q.groups, q.head = append(first, q.groups[q.head:]...), 0
	}
}

// next takes one group of the tenant whose turn it is; nil when nothing waits.
func (t *tenantQueues) next() *pushGroup {
	if len(t.turns) == 0 {
		return nil
	}
	t.at %= len(t.turns)
	q := t.turns[t.at]
	g := q.groups[q.head]
	q.groups[q.head] = nil
	q.head++
	if q.head == len(q.groups) {
		delete(t.byTenant, q.tenant)
		t.turns = append(t.turns[:t.at], t.turns[t.at+1:]...)
		return g
	}
	t.at++
	return g
}
