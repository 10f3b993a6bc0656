package node

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"

	"github.com/google/uuid"

	"waggle/api"
	"waggle/mesh"
	"waggle/pg"
)

// States beside the mesh's own.
const (
	stateUnheard = "unheard"
	stateOff     = "off"
)

// meshDesk answers what operators ask of the mesh.
type meshDesk Node

// MeshMembers implements api.Mesh.
func (d *meshDesk) MeshMembers(ctx context.Context) ([]api.MeshMember, error) {
	rows, err := d.db.LiveBrokers(ctx)
	if err != nil {
		return nil, err
	}
	now, err := d.db.MeshRing(ctx)
	if err != nil {
		return nil, err
	}
	// With the mesh off there is nothing but the registry.
	view := &mesh.View{}
	if d.mesh != nil {
		view = d.mesh.View()
	}
	return meshMembers(d.startID, view, rows, now, (*Node)(d).heldFingerprints()), nil
}

// meshMembers puts together what a broker sees and what the registry knows. held are the keys that it decrypts with, nil
// without encryption.
func meshMembers(self uuid.UUID, view *mesh.View, rows []pg.Broker, now pg.MeshRing, held []string) []api.MeshMember {
	registered := make(map[uuid.UUID]*pg.Broker, len(rows))
	for i := range rows {
		registered[rows[i].StartID] = &rows[i]
	}
	own, meshOn := registered[self], len(view.Members) > 0
	var members []api.MeshMember
	for _, m := range view.Members {
		row := registered[m.StartID]
		delete(registered, m.StartID)
		member := api.MeshMember{
			Name: m.Name, StartID: m.StartID.String(), Self: m.Self, Address: m.Address, State: string(m.State), Registered: row != nil,
			Version: m.Build, Frames: api.MeshFrames{Min: int(m.Frames.Min), Max: int(m.Frames.Max)}, Keys: holderOf(row, now.Number),
		}
		switch {
		case m.Self || m.State == mesh.StateAlive:
		case row != nil && m.State != mesh.StateLeft:
			member.Hint = silence(own, row, held)
		case m.State == mesh.StateDead:
			member.Hint = "gone without a word"
		}
		members = append(members, member)
	}
	for _, row := range registered {
		member := api.MeshMember{
			Name: row.Name, StartID: row.StartID.String(), Self: row.StartID == self, Address: row.Mesh, State: stateUnheard,
			Registered: true, Version: row.Build.Version, Frames: api.MeshFrames{Min: row.FrameMin, Max: row.FrameMax},
			Keys: holderOf(row, now.Number),
		}
		switch {
		case row.Mesh == "":
			member.State, member.Hint = stateOff, "it runs with --mesh=off"
		case !meshOn:
			member.Hint = "this broker runs with --mesh=off"
		default:
			member.Hint = silence(own, row, held)
		}
		members = append(members, member)
	}
	slices.SortFunc(members, func(a, b api.MeshMember) int {
		return strings.Compare(a.Name+"\x00"+a.StartID, b.Name+"\x00"+b.StartID)
	})
	return members
}

// silence guesses why a live broker is not heard.
func silence(own, other *pg.Broker, held []string) string {
	switch source := other.Keys.Source; {
	case source == "":
	case source == pg.KeysOff && held != nil:
		return "in the registry, but its mesh is not encrypted and this broker's is: its packets are dropped"
	case source != pg.KeysOff && held == nil:
		return "in the registry, but its mesh is encrypted and this broker's is not: it drops our packets"
	case source != pg.KeysOff && !slices.Contains(held, other.Keys.Fingerprint):
		return "in the registry, but it encrypts with a key that this broker does not have (" + string(source) +
			"): its packets are dropped"
	case own != nil && own.Keys.Source != source:
		return "in the registry, but its keys come from elsewhere (" + string(source) + "): perhaps it lacks ours"
	}
	return "in the registry, but not heard: it has just stopped, or a firewall drops TCP or UDP on its mesh port"
}

func holderOf(row *pg.Broker, ring int64) api.MeshHolder {
	if row == nil || row.Keys.Source == "" {
		return api.MeshHolder{Source: "unknown"}
	}
	return api.MeshHolder{
		Source: string(row.Keys.Source), Fingerprint: row.Keys.Fingerprint, Ring: row.Keys.Ring, Confirmed: row.LacksRing(ring) == "",
	}
}

// heldFingerprints are the keys that this broker decrypts with; nil without encryption.
func (n *Node) heldFingerprints() (held []string) {
	r := &n.ring
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, key := range r.keys {
		held = append(held, mesh.Fingerprint(key))
	}
	return held
}

// MeshKeys implements api.Mesh.
func (d *meshDesk) MeshKeys(ctx context.Context) (api.MeshKeys, error) {
	now, err := d.db.MeshRing(ctx)
	if err != nil {
		return api.MeshKeys{}, err
	}
	rows, err := d.db.LiveBrokers(ctx)
	if err != nil {
		return api.MeshKeys{}, err
	}
	shown := api.MeshKeys{Ring: now.Number}
	for i, key := range now.Keys {
		shown.Keys = append(shown.Keys, api.MeshKey{Fingerprint: mesh.Fingerprint(key), Primary: i == 0})
	}
	if !now.RotatedAt.IsZero() {
		shown.LastRotated = &now.RotatedAt
	}
	if now.Step != pg.NoRotation {
		shown.Rotation = &api.MeshRotation{
			Step: string(now.Step), StepSince: now.StepAt, RequestedBy: now.RequestedBy, RequestedAt: now.RequestedAt,
		}
		for _, b := range pg.Lacking(rows, now.Number) {
			shown.Rotation.WaitingFor = append(shown.Rotation.WaitingFor, api.MeshLacking{
				Name: b.Name, StartID: b.StartID.String(), Reason: b.LacksRing(now.Number),
			})
		}
	}
	for i := range rows {
		if rows[i].Mesh != "" {
			shown.Brokers = append(shown.Brokers, api.MeshKeyBroker{
				Name: rows[i].Name, StartID: rows[i].StartID.String(), MeshHolder: holderOf(&rows[i], now.Number),
			})
		}
	}
	return shown, nil
}

// RotateMeshKey implements api.Mesh.
func (d *meshDesk) RotateMeshKey(ctx context.Context) (started bool, err error) {
	n := (*Node)(d)
	if started, err = n.db.RequestRotation(ctx, n.config.Name); err != nil {
		return false, err
	}
	// The leader hears of it with its next heartbeat at the latest.
	n.spreadRing()
	return started, nil
}

// PingMesh implements api.Mesh.
func (d *meshDesk) PingMesh(_ context.Context, name string) []api.MeshPing {
	if d.mesh == nil {
		return nil
	}
	var asked []mesh.Member
	for _, m := range d.mesh.View().Members {
		if !m.Self && (m.State == mesh.StateAlive || m.State == mesh.StateSuspect) && (name == "" || m.Name == name) {
			asked = append(asked, m)
		}
	}
	answers := make([]api.MeshPing, len(asked))
	var all sync.WaitGroup
	for i, m := range asked {
		all.Go(func() {
			answers[i] = api.MeshPing{Name: m.Name, StartID: m.StartID.String(), Address: m.Address, State: string(m.State)}
			took, err := d.mesh.Ping(m)
			switch {
			case errors.Is(err, mesh.ErrNoEcho):
				answers[i].Error = mesh.ErrNoEcho.Error()
			case err != nil:
				answers[i].Error = err.Error()
			default:
				milliseconds := float64(took.Microseconds()) / 1000
				answers[i].Milliseconds = &milliseconds
			}
		})
	}
	all.Wait()
	return answers
}
