package node

import (
	"context"
	"time"

	"github.com/google/uuid"
	"go.uber.org/zap"

	"waggle/mesh"
)

// settingsQueue stands, under no tenant, for the switches of the cluster in invalidations: frames can only name queues.
// A broker that does not know the meaning forgets a queue that it never had.
const settingsQueue = "settings"

// settingsHeard is how long a change waits before it is reported as done, so that the others have heard of it. Those
// that no hint reaches see it with their next heartbeat.
const settingsHeard = 250 * time.Millisecond

// maintenance switches what holds for all brokers.
type maintenance Node

// PopMaintenance implements api.Maintenance.
func (m *maintenance) PopMaintenance(ctx context.Context) (bool, error) {
	return (*Node)(m).readSettings(ctx)
}

// SetPopMaintenance implements api.Maintenance.
func (m *maintenance) SetPopMaintenance(ctx context.Context, on bool) error {
	if err := (*Node)(m).writeSettings(ctx, on); err != nil {
		return err
	}
	if m.mesh == nil {
		return nil
	}
	m.mesh.SendInvalidation(mesh.Invalidation{Tenant: uuid.Nil, TenantKnown: true, Queue: settingsQueue, OptionsChanged: true})
	select {
	case <-time.After(settingsHeard):
	case <-ctx.Done():
	}
	return nil
}

func (n *Node) writeSettings(ctx context.Context, popsPaused bool) error {
	n.settingsMu.Lock()
	defer n.settingsMu.Unlock()
	if err := n.db.SetPopMaintenance(ctx, popsPaused); err != nil {
		return err
	}
	n.logger.Info("pop maintenance switched", zap.Bool("on", popsPaused))
	n.broker.PausePops(popsPaused)
	return nil
}

// readSettings makes this broker follow what is stored.
func (n *Node) readSettings(ctx context.Context) (popsPaused bool, err error) {
	n.settingsMu.Lock()
	defer n.settingsMu.Unlock()
	if popsPaused, err = n.db.PopMaintenance(ctx); err != nil {
		return false, err
	}
	n.follow(popsPaused)
	return popsPaused, nil
}

// follow is called with settingsMu held, so that what was read before a change does not undo it.
func (n *Node) follow(popsPaused bool) {
	if popsPaused != n.broker.PopsPaused() {
		n.logger.Info("pop maintenance found switched", zap.Bool("on", popsPaused))
	}
	n.broker.PausePops(popsPaused)
}
