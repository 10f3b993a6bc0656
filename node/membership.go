package node

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"time"

	"github.com/google/uuid"
	"go.uber.org/zap"

	"waggle/broker"
	"waggle/mesh"
	"waggle/pg"
	"waggle/pg/schema"
)

const (
	heartbeatEvery   = 5 * time.Second
	heartbeatTimeout = 4 * time.Second
)

// startMesh listens for peers. Joining begins once the registry row is committed.
func (n *Node) startMesh(ctx context.Context) error {
	advertise, err := n.advertiseIP(ctx)
	if err != nil {
		return err
	}
	_, port, _ := net.SplitHostPort(n.listener.Addr().String())
	host, _, _ := net.SplitHostPort(n.config.Listen)
	if ip, err := netip.ParseAddr(host); host == "" || err == nil && ip.IsUnspecified() {
		host = advertise
	}
	n.httpURL = "http://" + net.JoinHostPort(host, port)
	if n.config.MeshOff {
		return nil
	}
	configured := n.config.MeshAdvertise
	if configured == "" {
		configured = advertise
	}
	n.beginRing()
	config := mesh.Config{
		Name: n.config.Name, StartID: n.startID, Label: n.installation.ClusterID.String(), Build: n.config.Version,
		HTTP: n.httpURL, Schema: mesh.SchemaRange{Knows: uint32(n.build.Knows), Needs: uint32(n.build.Needs)},
		Listen: n.config.MeshListen, Advertise: configured, Seeds: n.config.MeshJoin,
		FrameMax: uint8(n.config.MeshFrameMax), Keys: n.ring.keys, Plaintext: n.config.MeshPlaintext, ReloadKeys: n.reloadRing,
		Registry: &registry{n.db}, Handler: (*meshHandler)(n), Logger: n.logger.Named("mesh"), Registerer: n.registry,
	}
	if !n.config.MeshInterestOff {
		config.Interests = (*interests)(n)
	}
	n.mesh, err = mesh.New(config)
	if err != nil {
		return fmt.Errorf("mesh: %w", err)
	}
	n.parts.undo("mesh", n.leaveMesh)
	if err := n.mesh.Start(ctx); err != nil {
		if errors.Is(err, mesh.ErrAddressInUse) {
			return &AddressError{Flag: "mesh-listen", Address: n.config.MeshListen, Cause: errors.New("address already in use")}
		}
		return fmt.Errorf("mesh: %w", err)
	}
	return nil
}

// leaveMesh says goodbye. That nobody may have heard it is no failure: the registry row says it too.
func (n *Node) leaveMesh(ctx context.Context) error {
	if err := n.mesh.Leave(ctx); err != nil {
		n.logger.Info("leave was not spread", zap.Error(err))
	}
	return nil
}

// advertiseIP is where others reach this broker when nothing is configured.
func (n *Node) advertiseIP(ctx context.Context) (string, error) {
	host, _, _ := net.SplitHostPort(n.config.MeshListen)
	local, err := n.db.LocalAddress(ctx)
	if err != nil {
		return "", &DatabaseError{err}
	}
	ip, err := mesh.AdvertiseIP(host, local)
	if err != nil {
		return "", &ConfigError{Flag: "mesh-listen", Value: n.config.MeshListen, Cause: err.Error()}
	}
	return ip.String(), nil
}

func (n *Node) registration() pg.Registration {
	r := pg.Registration{
		StartID: n.startID, Name: n.config.Name, HTTP: n.httpURL, Build: n.build, FrameMin: mesh.FrameMin,
		FrameMax: n.config.MeshFrameMax,
	}
	if n.mesh != nil {
		r.Mesh, r.Keys = n.mesh.Address(), n.heldKeys()
	}
	return r
}

// admit enters the registry, if the gate lets this build in.
func (n *Node) admit(ctx context.Context) error {
	if err := n.register(ctx); err != nil {
		n.refusedByGate(err)
		return err
	}
	n.parts.undo("registry", func(ctx context.Context) error { return n.db.Leave(ctx, n.startID) })
	return nil
}

func (n *Node) refusedByGate(err error) {
	var gate *schema.GateError
	if errors.As(err, &gate) {
		n.logger.Error("the gate refuses this build", zap.String("code", gate.Code), zap.Error(err))
		n.setReadiness(false, gate.Code, gate.Error())
	}
}

// heartbeat keeps the registry row alive and runs the gate each time; a build that has fallen outside it leaves.
func (n *Node) heartbeat(ctx context.Context) error {
	ticker := time.NewTicker(heartbeatEvery)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
		case <-n.heartbeatNow:
		}
		if err := n.beat(ctx); err != nil {
			return err
		}
	}
}

func (n *Node) beat(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, heartbeatTimeout)
	defer cancel()
	heard, err := n.beatOnce(ctx)
	if err == nil && !heard.Registered {
		n.logger.Warn("registry row was gone, registering again", zap.String("code", "WG0101"))
		err = n.register(ctx)
	}
	var gate *schema.GateError
	if errors.As(err, &gate) {
		n.refusedByGate(err)
		return err
	}
	if err != nil && ctx.Err() == nil {
		n.logger.Warn("registry heartbeat failed", zap.String("code", "WG0102"), zap.Error(err))
	}
	return nil
}

// beatOnce also follows the switches and the mesh keys of the cluster, which come along.
func (n *Node) beatOnce(ctx context.Context) (pg.Beat, error) {
	n.settingsMu.Lock()
	defer n.settingsMu.Unlock()
	heard, err := n.db.Heartbeat(ctx, n.startID, n.build, n.draining.Load(), n.heldKeys())
	if err != nil {
		return heard, err
	}
	n.follow(heard.PopsPaused)
	return heard, n.followRing(ctx, heard)
}

// registry is the mesh's view of the registry table.
type registry struct{ db *pg.DB }

// Live implements mesh.Registry.
func (r *registry) Live(ctx context.Context) ([]mesh.RegistryMember, error) {
	rows, err := r.db.ListedBrokers(ctx)
	if err != nil {
		return nil, err
	}
	members := make([]mesh.RegistryMember, len(rows))
	for i, row := range rows {
		members[i] = mesh.RegistryMember{
			Name: row.Name, StartID: row.StartID, Address: row.Mesh, HTTP: row.HTTP, Left: row.Left,
			Frames: mesh.FrameRange{Min: uint8(row.FrameMin), Max: uint8(row.FrameMax)},
		}
	}
	return members, nil
}

// hints is how the data plane tells other brokers.
type hints struct{ mesh *mesh.Mesh }

// Wake implements broker.Hints.
func (h *hints) Wake(tenant uuid.UUID, queue, partition string) {
	h.mesh.SendWake(mesh.Wake{Tenant: tenant, TenantKnown: true, Queue: queue, Partition: partition})
}

// Invalidate implements broker.Hints.
func (h *hints) Invalidate(tenant uuid.UUID, queue string, version int64) {
	h.mesh.SendInvalidation(mesh.Invalidation{
		Tenant: tenant, TenantKnown: true, Queue: queue, OptionsChanged: version > 0, Version: version, Deleted: version == 0,
	})
}

// CursorsMoved implements broker.Hints.
func (h *hints) CursorsMoved(tenant uuid.UUID, queue, group string) {
	h.mesh.SendInvalidation(mesh.Invalidation{Tenant: tenant, TenantKnown: true, Queue: queue, CursorsMoved: true, Group: group})
}

// meshHandler is how hints of other brokers reach this one.
type meshHandler Node

func (h *meshHandler) plane() *broker.Broker { return h.broker }

// Wake implements mesh.Handler.
func (h *meshHandler) Wake(items []mesh.Wake) {
	b := h.plane()
	if b == nil {
		return
	}
	for i := range items {
		partition := items[i].Partition
		if items[i].QueueWide {
			partition = ""
		}
		b.HandleWake(tenantOf(items[i].Tenant, items[i].TenantKnown), items[i].Queue, partition)
	}
}

// Invalidate implements mesh.Handler.
func (h *meshHandler) Invalidate(items []mesh.Invalidation) {
	b := h.plane()
	if b == nil {
		return
	}
	for i := range items {
		if items[i].TenantKnown && items[i].Tenant == uuid.Nil && items[i].Queue == settingsQueue {
			(*Node)(h).hurryHeartbeat()
		}
		tenant := tenantOf(items[i].Tenant, items[i].TenantKnown)
		if items[i].OptionsChanged || items[i].Deleted {
			b.HandleInvalidation(tenant, items[i].Queue)
		}
		if items[i].CursorsMoved {
			b.HandleCursorsMoved(tenant, items[i].Queue, items[i].Group)
		}
	}
}

// Repair implements mesh.Handler.
func (h *meshHandler) Repair(reason mesh.RepairReason) {
	if b := h.plane(); b != nil {
		h.logger.Debug("hints may have been lost", zap.String("reason", string(reason)))
		b.Repair()
	}
}

// LeaderHint implements mesh.Handler.
func (h *meshHandler) LeaderHint() {
	if e := h.elector; e != nil {
		e.Hint()
	}
}

func tenantOf(tenant uuid.UUID, known bool) *uuid.UUID {
	if !known {
		return nil
	}
	return &tenant
}
