package node

import (
	"context"
	"time"

	"github.com/google/uuid"
	"go.uber.org/zap"

	"waggle/leader"
	"waggle/mesh"
	"waggle/pg"
)

// Rhythm of a rotation. The job costs nothing to speak of while there is none: who asks for one makes it due.
const (
	rotationEvery    = 10 * time.Minute
	rotationLook     = 100 * time.Millisecond // and up to rotationLookMax while somebody is waited for
	rotationLookMax  = 2 * time.Second
	rotationPatience = 30 * time.Second // before the log says who is waited for
)

// rotation is one reign's work at the mesh key.
type rotation struct {
	n      *Node
	fenced *pg.Fenced
	pause  time.Duration
	// waitingSince is when the ring of this number was first found unconfirmed; told, that the log has said by whom.
	number       int64
	waitingSince time.Time
	told         bool
}

// rotationJob rotates the mesh key when that is asked for, until every live broker has confirmed the last step.
func (n *Node) rotationJob(fenced *pg.Fenced) leader.Job {
	r := &rotation{n: n, fenced: fenced, pause: rotationLook}
	return leader.Job{Name: pg.RotationJob, Every: rotationEvery, Timeout: rotationEvery, Batch: r.step}
}

// step tries to take the next step, and waits a little when it cannot be taken yet.
func (r *rotation) step(ctx context.Context) (rows int64, more bool, err error) {
	ring, advanced, waiting, err := r.fenced.AdvanceRotation(ctx)
	switch {
	case err != nil:
		return 0, false, err
	case advanced:
		r.pause = rotationLook
		r.n.logger.Info("mesh key rotation goes on", zap.Int64("ring", ring.Number), zap.String("step", orDone(ring.Step)))
		r.n.spreadRing()
		return 1, ring.Step != pg.NoRotation, nil
	case ring.Step == pg.NoRotation:
		return 0, false, nil
	}
	if r.number != ring.Number || r.waitingSince.IsZero() {
		r.number, r.waitingSince, r.told = ring.Number, time.Now(), false
	}
	if time.Since(r.waitingSince) > rotationPatience && !r.told {
		r.told = true
		reasons := make([]string, len(waiting))
		for i := range waiting {
			reasons[i] = waiting[i].Name + ": " + waiting[i].LacksRing(ring.Number)
		}
		r.n.logger.Warn("mesh key rotation waits for brokers", zap.String("code", "WG0312"), zap.String("step", string(ring.Step)),
			zap.Strings("brokers", reasons))
	}
	select {
	case <-time.After(r.pause):
	case <-ctx.Done():
	}
	r.pause = min(2*r.pause, rotationLookMax)
	return 0, true, nil
}

func orDone(step pg.RotationStep) string {
	if step == pg.NoRotation {
		return "done"
	}
	return string(step)
}

// spreadRing lets the others read the keyring now, instead of with their next heartbeat.
func (n *Node) spreadRing() {
	n.hurryHeartbeat()
	if n.mesh != nil {
		n.mesh.SendInvalidation(mesh.Invalidation{Tenant: uuid.Nil, TenantKnown: true, Queue: settingsQueue, OptionsChanged: true})
	}
}
