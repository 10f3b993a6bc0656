package broker

import (
	"context"
	"time"

	"github.com/google/uuid"

	"waggle/pg"
)

// Configure creates a queue or changes its options. Other brokers are told, and find out by themselves at their next
// use of the queue in any case: every append and claim carries the version it was made for.
func (b *Broker) Configure(ctx context.Context, req ConfigureRequest) (ConfigureAnswer, error) {
	ctx, cancel := context.WithTimeout(ctx, dbTimeout)
	defer cancel()
	if !storableName(req.Queue) {
		return ConfigureAnswer{}, errName
	}
	if err := b.admitOptions(ctx, req.Options); err != nil {
		return ConfigureAnswer{}, err
	}
	key := queueKey{req.Tenant, req.Queue}
	if err := b.admitConfigured(ctx, key); err != nil {
		return ConfigureAnswer{}, err
	}
	fresh := newQueue(key)
	fresh.Namespace, fresh.Task = "", ""
	var ignored []string
	row, err := b.db.Configure(ctx, fresh, func(stored pg.Queue, created bool) (pg.Queue, error) {
		if req.IfVersion != 0 && (created || stored.Version != req.IfVersion) {
			return stored, ErrVersionConflict
		}
		if req.Replace {
			stored.Namespace, stored.Task = "", ""
		}
		if req.Namespace != nil {
			stored.Namespace = storableText(*req.Namespace)
		}
		if req.Task != nil {
			stored.Task = storableText(*req.Task)
		}
		var err error
		stored.Options, ignored, err = mergeOptions(stored.Options, created, req.Replace, req.Options)
		return stored, err
	})
	if err != nil {
		return ConfigureAnswer{}, err
	}
	b.catalog.invalidate(key)
	q := b.catalog.store(row, b.catalog.generation(key))
	b.hints.Invalidate(req.Tenant, req.Queue, row.Version)
	return ConfigureAnswer{
		QueueID: q.wire, Namespace: q.namespace, Task: q.task, Options: q.options.echo(), OptionsVersion: q.version,
		Ignored: ignored,
	}, nil
}

// admitOptions refuses options that a live broker does not know. One that starts later is the operator's matter: the option
// survives it, and finalize shuts it out.
func (b *Broker) admitOptions(ctx context.Context, sent map[string]any) error {
	options, step := youngest(sent)
	if len(options) == 0 {
		return nil
	}
	live, err := b.db.LiveBrokers(ctx)
	if err != nil {
		return err
	}
	refused := &OptionNotKnownError{Options: options}
	for _, other := range live {
		if other.Build.Knows < step {
			refused.Brokers = append(refused.Brokers, other.Name+" ("+other.Build.Version+")")
		}
	}
	if len(refused.Brokers) > 0 {
		return refused
	}
	return nil
}

// admitConfigured counts a queue that a configure is about to make.
func (b *Broker) admitConfigured(ctx context.Context, key queueKey) error {
	q, err := b.catalog.find(ctx, key)
	if err != nil || q != nil {
		return err
	}
	return b.limits.admit(ctx, key.tenant, pg.TenantCounts{Queues: 1})
}

// DeleteQueue removes a queue with all it holds; its segments are purged later.
func (b *Broker) DeleteQueue(ctx context.Context, tenant uuid.UUID, name string) (existed bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	if !storableName(name) {
		return false, nil
	}
	id, err := b.db.DeleteQueue(ctx, pg.QueueName{Tenant: tenant, Name: name})
	if err != nil {
		return false, err
	}
	b.catalog.invalidate(queueKey{tenant, name})
	if id == 0 {
		return false, nil
	}
	b.watch.queueGone(id)
	b.hints.Invalidate(tenant, name, 0)
	return true, nil
}
