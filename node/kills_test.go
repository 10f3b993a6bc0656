package node_test

import (
	"math/rand/v2"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"waggle/client"
	"waggle/pg/pgtest"
)

// pause lets the load run for a random time, so that what comes next meets it anywhere.
func pause(low, high time.Duration) { time.Sleep(low + rand.N(high-low)) }

// Twenty crashes of brokers at random moments under load cost nothing.
func TestKillsLoseNothing(t *testing.T) {
	c := startCluster(t, pgtest.New(t).URL, 3)
	w := startWorkload(t, "orders", c.urls(), 6, 3)
	const kills = 20
	for n := range kills {
		pause(50*time.Millisecond, 400*time.Millisecond)
		victim := c[n%len(c)]
		victim.kill()
		if n%4 == 3 {
			// For a moment only one is left.
			other := c[(n+1)%len(c)]
			other.kill()
			other.launch(t)
			defer other.awaitListening(t)
		}
		victim.restart(t)
	}
	for _, m := range c {
		m.awaitListening(t)
	}
	w.finish(t, true)
}

// A restart of PostgreSQL, orderly or as after a crash, is over for every broker within seconds, and costs nothing.
func TestPostgresRestartsLoseNothing(t *testing.T) {
	server := pgtest.NewServer(t, nil)
	c := startCluster(t, pgtest.New(t, pgtest.On(server)).URL, 3)
	for name, stop := range map[string]func(){"fast": server.Stop, "immediate": server.Kill} {
		w := startWorkload(t, "orders-"+name, c.urls(), 4, 3)
		pause(300*time.Millisecond, 600*time.Millisecond)
		stop()
		pause(200*time.Millisecond, 400*time.Millisecond)
		server.Start()
		back := time.Now()
		for _, m := range c {
			alone := newClient(t, m.url)
			eventually(t, m.name+" stores again", func() bool {
				results, err := alone.Push(t.Context(), []client.Item{{Queue: "probe-" + name, Partition: m.name}})
				return err == nil && results[0].Status == client.Queued
			})
			eventually(t, m.name+" delivers again", func() bool {
				got, err := alone.Pop(t.Context(), client.PopRequest{Queue: "probe-" + name, Partition: m.name, AutoAck: true})
				return err == nil && got != nil
			})
			eventually(t, m.name+" is healthy again", func() bool {
				return call(t, http.MethodGet, m.url+"/health", "").status == http.StatusOK
			})
		}
		took := time.Since(back)
		t.Logf("%s: all three worked again %v after PostgreSQL did", name, took)
		require.Less(t, took, 15*time.Second, name)
		pause(200*time.Millisecond, 400*time.Millisecond)
		// A lease that was committed asynchronously may be lost in a crash of the server: that is one redelivery.
		w.finish(t, name == "fast")
	}
}
