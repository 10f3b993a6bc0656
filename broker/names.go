package broker

import (
	"iter"

	"github.com/google/uuid"
)

// namedIndex keeps things of queues by tenant and name. A hint of a tenant finds its one thing, a hint without a tenant those
// of every tenant that has the name; neither meets anything else, however many queues there are.
type namedIndex[V any] struct {
	byName map[string]map[uuid.UUID]V
}

func newNamedIndex[V any]() namedIndex[V] {
	return namedIndex[V]{byName: map[string]map[uuid.UUID]V{}}
}

func (n namedIndex[V]) isEmpty() bool { return len(n.byName) == 0 }

// at returns the zero value when there is nothing.
func (n namedIndex[V]) at(key queueKey) V { return n.byName[key.name][key.tenant] }

func (n namedIndex[V]) set(key queueKey, value V) {
	if n.byName[key.name] == nil {
		n.byName[key.name] = map[uuid.UUID]V{}
	}
	n.byName[key.name][key.tenant] = value
}

func (n namedIndex[V]) remove(key queueKey) {
	if delete(n.byName[key.name], key.tenant); len(n.byName[key.name]) == 0 {
		delete(n.byName, key.name)
	}
}

// hinted goes through what a hint is for. What is met may be removed on the way.
func (n namedIndex[V]) hinted(tenant *uuid.UUID, name string) iter.Seq2[queueKey, V] {
	return func(yield func(queueKey, V) bool) {
		holders := n.byName[name]
		if tenant != nil {
			if value, found := holders[*tenant]; found {
				yield(queueKey{*tenant, name}, value)
			}
			return
		}
		for holder, value := range holders {
			if !yield(queueKey{holder, name}, value) {
				return
			}
		}
	}
}

func (n namedIndex[V]) keys() iter.Seq[queueKey] {
	return func(yield func(queueKey) bool) {
		for name, holders := range n.byName {
			for tenant := range holders {
				if !yield(queueKey{tenant, name}) {
					return
				}
			}
		}
	}
}
