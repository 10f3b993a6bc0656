package node

import (
	"context"
	"time"

	"github.com/google/uuid"
	"go.uber.org/zap"

	"waggle/leader"
	"waggle/mesh"
)

const (
	// leaderWatch is how often the mesh's view is looked at for a leader that is gone.
	leaderWatch = 250 * time.Millisecond
	// lingerWatch is how often the database is asked about the leader's session while the view lists a dead broker.
	lingerWatch   = time.Second
	lingerTimeout = 2 * time.Second
)

// watchLeader takes from the mesh that a leader is gone. That is never more than a hint: it brings the next try for the
// lock forward, and it makes this broker look at whether the database has not heard of the leader either.
func (n *Node) watchLeader(ctx context.Context) error {
	w := leaderWatcher{view: n.mesh.View, gone: n.elector.Hint, dead: n.endLingeringLeader}
	w.run(ctx)
	return nil
}

// leaderWatcher looks at the view again and again.
type leaderWatcher struct {
	view func() *mesh.View
	// gone is called each time that a leader is not alive any more.
	gone func()
	// dead is called with the dead brokers as long as there are any.
	dead func(context.Context, map[uuid.UUID]bool)
}

func (w *leaderWatcher) run(ctx context.Context) {
	ticker := time.NewTicker(leaderWatch)
	defer ticker.Stop()
	before := w.view()
	var asked time.Time
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		view := w.view()
		if leaderGone(before, view) {
			w.gone()
		}
		before = view
		if dead := deadBrokers(view); len(dead) > 0 && time.Since(asked) >= lingerWatch {
			asked = time.Now()
			w.dead(ctx, dead)
		}
	}
}

// leaderGone says that a broker which leads, as far as the mesh knows, was alive before and is not any more.
func leaderGone(before, now *mesh.View) bool {
	for _, m := range before.Members {
		if m.Self || !m.Leader || m.State != mesh.StateAlive {
			continue
		}
		if after, listed := now.ByStartID(m.StartID); !listed || after.State != mesh.StateAlive {
			return true
		}
	}
	return false
}

func deadBrokers(view *mesh.View) map[uuid.UUID]bool {
	dead := map[uuid.UUID]bool{}
	for _, m := range view.Members {
		if m.State == mesh.StateDead {
			dead[m.StartID] = true
		}
	}
	return dead
}

// endLingeringLeader ends the session of a leader that neither the mesh nor the database hears of. The server would do
// so too, when a lease is over.
func (n *Node) endLingeringLeader(ctx context.Context, dead map[uuid.UUID]bool) {
	asking, cancel := context.WithTimeout(ctx, lingerTimeout)
	defer cancel()
	backend, err := n.db.LeaderBackend(asking)
	ended := false
	if err == nil && backend != nil {
		holding := leader.Holding{MeshSaysDead: dead[backend.StartID], Unseen: backend.Unseen}
		if !holding.Lingers(lease) {
			return
		}
		ended, err = n.db.EndLeaderSession(asking, backend, leader.UnseenLimit(lease))
	}
	switch {
	case err != nil && ctx.Err() == nil:
		n.logger.Warn("session of a dead leader not looked at", zap.String("code", "WG0207"), zap.Error(err))
	case ended:
		n.logger.Warn("session of a dead leader ended", zap.String("code", "WG0208"), zap.String("leader", backend.Name),
			zap.Stringer("start_id", backend.StartID), zap.Int64("epoch", backend.Epoch), zap.Int32("pid", backend.PID),
			zap.Time("backend_start", backend.Start), zap.Duration("unseen", backend.Unseen))
		n.elector.Hint()
		n.sayLeaderLeft()
	}
}
