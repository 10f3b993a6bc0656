package node

import (
	"waggle/api"
	"waggle/mesh"
)

// Mesh implements api.Cluster.
func (c *cluster) Mesh() api.MeshStatus {
	status := api.MeshStatus{Name: c.config.Name, StartID: c.startID.String()}
	if c.mesh == nil {
		return status
	}
	self, stats := c.mesh.View().Self(), c.mesh.Stats()
	status.Enabled, status.Address = true, self.Address
	status.FrameMin, status.FrameMax = int(self.Frames.Min), int(self.Frames.Max)
	status.Interest = interestOf(stats.Interest)
	status.In, status.Out, status.Dropped = countsOf(stats.In), countsOf(stats.Out), countsOf(stats.Dropped)
	status.Gaps, status.Fanouts, status.Withheld = stats.Gaps, stats.Fanouts, stats.Withheld
	status.Undecryptable, status.WrongLabel = stats.Undecryptable, stats.WrongLabel
	status.Rounds, status.P50, status.P99 = stats.Beacon.Count, stats.Beacon.P50, stats.Beacon.P99
	status.Unheard = stats.Unheard
	for i := range stats.Peers {
		status.Peers = append(status.Peers, peerOf(&stats.Peers[i]))
	}
	return status
}

func peerOf(p *mesh.PeerStats) api.MeshPeer {
	peer := api.MeshPeer{
		Name: p.Name, StartID: p.StartID.String(), State: string(p.State), Since: p.Since, Address: p.Address,
		FrameVersion: int(p.Version), Heard: -1, RTT: -1, Queued: p.Queued, In: countsOf(p.In), Out: countsOf(p.Out),
		Dropped: countsOf(p.Dropped), Gaps: p.Gaps, Interest: interestOf(p.Interest),
	}
	if p.IsHeard {
		peer.Heard = p.Heard
	}
	if p.RTT > 0 {
		peer.RTT = p.RTT
	}
	return peer
}

func interestOf(i *mesh.InterestStats) *api.MeshInterest {
	if i == nil {
		return nil
	}
	return &api.MeshInterest{Generation: i.Generation, Fill: i.Fill, Age: i.Age, Held: i.Held}
}

func countsOf(counts []mesh.Count) []api.MeshCount {
	out := make([]api.MeshCount, len(counts))
	for i, c := range counts {
		out[i] = api.MeshCount{Name: c.Name, Value: c.Value}
	}
	return out
}
