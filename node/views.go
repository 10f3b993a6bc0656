package node

import (
	"context"
	"net/netip"

	"waggle/api"
	"waggle/mesh"
)

// cluster is what the node tells of the others.
type cluster Node

// View implements api.Cluster: the mesh's view, or the live registry rows with the mesh off.
func (c *cluster) View(ctx context.Context) (api.ClusterView, error) {
	rows, err := c.db.LiveBrokers(ctx)
	if err != nil {
		return api.ClusterView{}, err
	}
	view := api.ClusterView{
		Self: c.config.Name, ClusterID: c.installation.ClusterID.String(), Leader: c.Leader(), Registered: len(rows),
	}
	leads := func(startID string) bool { return view.Leader != nil && view.Leader.StartID == startID }
	if c.mesh == nil {
		for _, r := range rows {
			id := r.StartID.String()
			view.Members = append(view.Members, api.Member{
				Name: r.Name, StartID: id, State: string(mesh.StateAlive), Version: r.Build.Version, HTTP: r.HTTP,
				FrameMin: r.FrameMin, FrameMax: r.FrameMax, SchemaKnows: r.Build.Knows, SchemaNeeds: r.Build.Needs,
				Leader: leads(id), Draining: r.Draining,
			})
		}
		return view, nil
	}
	for _, m := range c.mesh.View().Members {
		id := m.StartID.String()
		view.Members = append(view.Members, api.Member{
			Name: m.Name, StartID: id, State: string(m.State), Version: m.Build, HTTP: m.HTTP,
			FrameMin: int(m.Frames.Min), FrameMax: int(m.Frames.Max), SchemaKnows: int(m.Schema.Knows),
			SchemaNeeds: int(m.Schema.Needs), Leader: leads(id), Draining: m.Draining,
		})
	}
	return view, nil
}

// Leader implements api.Cluster.
func (c *cluster) Leader() *api.Leader {
	row := (*Node)(c).currentLeader()
	if row == nil {
		return nil
	}
	return &api.Leader{
		Name: row.Name, StartID: row.StartID.String(), Epoch: row.Epoch, Since: row.Since, IsSelf: row.StartID == c.startID,
	}
}

// Exchange implements api.Cluster.
func (c *cluster) Exchange() *api.Exchange {
	if c.mesh == nil {
		return nil
	}
	counts := c.mesh.Counts()
	exchange := &api.Exchange{
		Sent: counts.Sent, Received: counts.Received, Dropped: counts.Dropped,
		BadSignatures: counts.Undecryptable, BadHandshakes: counts.WrongLabel,
	}
	if address, err := netip.ParseAddrPort(c.mesh.Address()); err == nil {
		exchange.Port = int(address.Port())
	}
	for _, m := range c.mesh.View().Members {
		switch {
		case m.Self:
		case m.State == mesh.StateAlive || m.State == mesh.StateSuspect:
			exchange.Peers = append(exchange.Peers, m.Address)
			exchange.Alive++
		case m.State == mesh.StateDead:
			exchange.Dead++
		}
	}
	return exchange
}

// health is how the node says that it is well.
type health Node

// Database implements api.Health.
func (h *health) Database(ctx context.Context) error { return h.db.Pool().Ping(ctx) }

// Readiness implements api.Health.
func (h *health) Readiness() api.Readiness { return *h.readiness.Load() }
