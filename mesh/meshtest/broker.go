package meshtest

import (
	"context"
	"slices"
	"sync"

	"github.com/google/uuid"

	"waggle/mesh"
)

// Registry stands in for the broker registry in Postgres.
type Registry struct {
	mu   sync.Mutex // guards the rest
	rows []mesh.RegistryMember
	err  error
}

var _ mesh.Registry = (*Registry)(nil)

// Live returns the rows.
func (r *Registry) Live(ctx context.Context) ([]mesh.RegistryMember, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.err != nil {
		return nil, r.err
	}
	return slices.Clone(r.rows), ctx.Err()
}

// Put inserts or replaces the row of a start.
func (r *Registry) Put(row mesh.RegistryMember) {
	r.Remove(row.StartID)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.rows = append(r.rows, row)
}

// Remove deletes the row of a start.
func (r *Registry) Remove(start uuid.UUID) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.rows = slices.DeleteFunc(r.rows, func(row mesh.RegistryMember) bool { return row.StartID == start })
}

// MarkLeft signs a start off.
func (r *Registry) MarkLeft(start uuid.UUID) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for i := range r.rows {
		if r.rows[i].StartID == start {
			r.rows[i].Left = true
		}
	}
}

// Fail makes Live fail, until it is called with nil.
func (r *Registry) Fail(err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.err = err
}

// Recorder is a mesh.Handler that remembers what it was told.
type Recorder struct {
	mu            sync.Mutex // guards the rest
	wakes         []mesh.Wake
	invalidations []mesh.Invalidation
	repairs       []mesh.RepairReason
	leaderHints   int
	hook          func()
	changed       chan struct{} // closed and replaced at each call
}

var _ mesh.Handler = (*Recorder)(nil)

// NewRecorder makes an empty recorder.
func NewRecorder() *Recorder { return &Recorder{changed: make(chan struct{})} }

// Wake remembers items.
func (r *Recorder) Wake(items []mesh.Wake) {
	r.note(func() { r.wakes = append(r.wakes, items...) })
}

// Invalidate remembers items.
func (r *Recorder) Invalidate(items []mesh.Invalidation) {
	r.note(func() { r.invalidations = append(r.invalidations, items...) })
}

// Repair remembers the reason.
func (r *Recorder) Repair(reason mesh.RepairReason) {
	r.note(func() { r.repairs = append(r.repairs, reason) })
}

// LeaderHint counts.
func (r *Recorder) LeaderHint() { r.note(func() { r.leaderHints++ }) }

func (r *Recorder) note(change func()) {
	r.mu.Lock()
	change()
	close(r.changed)
	r.changed = make(chan struct{})
	hook := r.hook
	r.mu.Unlock()
	if hook != nil {
		hook()
	}
}

// OnCall sets a function that is called inside every call, to make the handler slow.
func (r *Recorder) OnCall(hook func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.hook = hook
}

// Reset forgets everything.
func (r *Recorder) Reset() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.wakes, r.invalidations, r.repairs, r.leaderHints = nil, nil, nil, 0
}

// Wakes are the wakes so far.
func (r *Recorder) Wakes() []mesh.Wake {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.wakes)
}

// Invalidations are the invalidations so far.
func (r *Recorder) Invalidations() []mesh.Invalidation {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.invalidations)
}

// Repairs are the reasons of the repairs so far.
func (r *Recorder) Repairs() []mesh.RepairReason {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.repairs)
}

// LeaderHints is how many leader hints came.
func (r *Recorder) LeaderHints() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.leaderHints
}

// Await waits until the recorder satisfies done, which may call its other methods, or ctx ends.
func (r *Recorder) Await(ctx context.Context, done func(*Recorder) bool) error {
	for {
		r.mu.Lock()
		changed := r.changed
		r.mu.Unlock()
		if done(r) {
			return nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}
