package mesh_test

import (
	"bytes"
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"
	"go.uber.org/zap"

	"waggle/mesh"
	"waggle/mesh/meshtest"
)

var tenant = uuid.MustParse("0198a000-0000-7000-8000-00000000000a")

// cluster is a set of brokers on one network in this process. Its tests run under synctest: a sleep is virtual, and
// when it ends everything that was due has happened.
type cluster struct {
	t        *testing.T
	network  *meshtest.Network
	registry *meshtest.Registry
	brokers  []*broker
}

type broker struct {
	*mesh.Mesh
	*meshtest.Recorder
	start   uuid.UUID
	address string
	metrics *prometheus.Registry
}

func newCluster(t *testing.T) *cluster {
	c := &cluster{t: t, network: meshtest.NewNetwork(1), registry: &meshtest.Registry{}}
	t.Cleanup(c.stop)
	return c
}

func (c *cluster) stop() {
	for _, b := range c.brokers {
		b.Stop()
	}
	// Probes that the library has begun run into their timeouts.
	time.Sleep(20 * time.Second)
}

// config is a configuration that may be changed before the broker is made of it.
func (c *cluster) config(name string) mesh.Config {
	start, err := uuid.NewV7()
	require.NoError(c.t, err)
	return mesh.Config{
		Name: name, StartID: start, Label: "cluster", Build: "0.1.0", HTTP: "http://" + name,
		Schema: mesh.SchemaRange{Knows: 2, Needs: 1}, Keys: [][]byte{bytes.Repeat([]byte{1}, 32)},
		Registry: c.registry, Logger: zap.NewNop(), Transport: c.network.Transport(),
	}
}

// start runs a broker as a node would: listen, write the row, join.
func (c *cluster) start(cfg mesh.Config) *broker {
	b := c.startUnregistered(cfg)
	c.register(b)
	b.Join()
	return b
}

// register writes a broker's row.
func (c *cluster) register(b *broker) {
	self := b.View().Self()
	c.registry.Put(mesh.RegistryMember{Name: self.Name, StartID: self.StartID, Address: self.Address, Frames: self.Frames})
}

// startUnregistered runs a broker that the others do not find.
func (c *cluster) startUnregistered(cfg mesh.Config) *broker {
	b := &broker{Recorder: meshtest.NewRecorder(), start: cfg.StartID, metrics: prometheus.NewRegistry()}
	if cfg.Handler == nil {
		cfg.Handler = b.Recorder
	}
	cfg.Registerer = b.metrics
	var err error
	b.Mesh, err = mesh.New(cfg)
	require.NoError(c.t, err)
	require.NoError(c.t, b.Start(c.t.Context()))
	b.address = b.Address()
	c.brokers = append(c.brokers, b)
	return b
}

// startMany runs n more brokers and waits until all have found each other, until a moment at which no beacon is due.
func (c *cluster) startMany(n int) []*broker {
	for range n {
		c.start(c.config(fmt.Sprintf("b%d", len(c.brokers)+1)))
	}
	time.Sleep(5*time.Second + 333*time.Millisecond)
	for _, b := range c.brokers {
		require.Equal(c.t, len(c.brokers), b.View().Count(mesh.StateAlive), "seen by %s", b.View().Self().Name)
	}
	c.forget()
	return c.brokers
}

// forget empties all recorders.
func (c *cluster) forget() {
	for _, b := range c.brokers {
		b.Reset()
	}
}

// state is how a broker sees another one; empty when it does not list it.
func (b *broker) state(other *broker) mesh.State {
	m, _ := b.View().ByStartID(other.start)
	return m.State
}

// metric is the value of a series, a histogram's count, of the labels given as name, value, name, value.
func (b *broker) metric(name string, labels ...string) float64 {
	families, err := b.metrics.Gather()
	if err != nil {
		panic(err)
	}
	for _, family := range families {
		if family.GetName() != name {
			continue
		}
		for _, m := range family.GetMetric() {
			have := make(map[string]string)
			for _, l := range m.GetLabel() {
				have[l.GetName()] = l.GetValue()
			}
			matches := true
			for i := 0; i < len(labels); i += 2 {
				matches = matches && have[labels[i]] == labels[i+1]
			}
			if matches {
				return m.GetCounter().GetValue() + m.GetGauge().GetValue() + float64(m.GetHistogram().GetSampleCount())
			}
		}
	}
	panic("no metric " + name)
}

// beaconSum is what all beacon rounds took together, in seconds.
func (b *broker) beaconSum() float64 {
	families, err := b.metrics.Gather()
	if err != nil {
		panic(err)
	}
	for _, family := range families {
		if family.GetName() == "waggle_mesh_beacon_seconds" {
			return family.GetMetric()[0].GetHistogram().GetSampleSum()
		}
	}
	panic("no beacon metric")
}

func (b *broker) dropped(reason string) float64 {
	return b.metric("waggle_mesh_dropped_total", "reason", reason)
}

func (b *broker) leave(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
	defer cancel()
	require.NoError(t, b.Leave(ctx))
}

func wake(queue, partition string) mesh.Wake {
	return mesh.Wake{Tenant: tenant, TenantKnown: true, Queue: queue, Partition: partition}
}
