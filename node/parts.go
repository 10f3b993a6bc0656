package node

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"go.uber.org/zap"
)

// parts runs the long-lived pieces of a node. Each is a function that returns when its context ends; one that returns
// an error before that takes the node down. Teardown steps are named and run in reverse.
type parts struct {
	logger *zap.Logger

	mu       sync.Mutex // guards what follows
	teardown []step
	failed   chan error
}

type part struct {
	name   string
	cancel context.CancelCauseFunc
	done   chan struct{}
}

type step struct {
	name string
	run  func(context.Context) error
}

func newParts(logger *zap.Logger) *parts {
	return &parts{logger: logger, failed: make(chan error, 1)}
}

// start runs a part until stop ends it.
func (p *parts) start(name string, run func(context.Context) error) *part {
	ctx, cancel := context.WithCancelCause(context.Background())
	started := &part{name: name, cancel: cancel, done: make(chan struct{})}
	go func() {
		defer close(started.done)
		if err := run(ctx); err != nil && !errors.Is(context.Cause(ctx), errStopped) {
			select {
			case p.failed <- fmt.Errorf("%s: %w", name, err):
			default:
			}
		}
	}()
	return started
}

// stop ends a part and waits for it. It may be called more than once.
func (s *part) stop(ctx context.Context) error {
	s.cancel(errStopped)
	select {
	case <-s.done:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("still running: %w", ctx.Err())
	}
}

// undo registers what takes a started thing down.
func (p *parts) undo(name string, run func(context.Context) error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.teardown = append(p.teardown, step{name, run})
}

// down runs the teardown in reverse. It goes on after a failure and joins all of them.
func (p *parts) down(ctx context.Context) error {
	p.mu.Lock()
	steps := p.teardown
	p.teardown = nil
	p.mu.Unlock()
	var errs []error
	for i := len(steps) - 1; i >= 0; i-- {
		if err := steps[i].run(ctx); err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", steps[i].name, err))
			p.logger.Warn("part did not stop in order", zap.String("code", "WG0004"), zap.String("part", steps[i].name), zap.Error(err))
		}
	}
	return errors.Join(errs...)
}
