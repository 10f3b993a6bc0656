package node_test

import (
	"errors"
	"io"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// relay stands in front of a broker's mesh: the address that the broker advertises. Others reach it there by UDP and TCP
// until the relay is cut; the broker reaches others at their own relays.
type relay struct {
	target  string
	packets *net.UDPConn
	streams net.Listener
	running sync.WaitGroup

	mu    sync.Mutex // guards what follows
	apart bool
	open  map[net.Conn]struct{}
}

// startRelay returns a relay, and the settings of the broker behind it.
func startRelay(t *testing.T) (*relay, []string) {
	t.Helper()
	r := &relay{target: freeAddress(t), open: map[net.Conn]struct{}{}}
	address := freeAddress(t)
	at, err := net.ResolveUDPAddr("udp", address)
	require.NoError(t, err)
	r.packets, err = net.ListenUDP("udp", at)
	require.NoError(t, err)
	r.streams, err = net.Listen("tcp", address)
	require.NoError(t, err)
	r.running.Go(r.forwardPackets)
	r.running.Go(r.forwardStreams)
	t.Cleanup(func() {
		_ = r.packets.Close()
		_ = r.streams.Close()
		r.cut(true)
		r.running.Wait()
	})
	return r, []string{"WAGGLE_MESH_LISTEN=" + r.target, "WAGGLE_MESH_ADVERTISE=" + address}
}

// cut lets nothing through any more, or lets everything through again.
func (r *relay) cut(apart bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.apart = apart
	if apart {
		for conn := range r.open {
			_ = conn.Close()
		}
	}
}

func (r *relay) isCut() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.apart
}

func (r *relay) forwardPackets() {
	target, err := net.ResolveUDPAddr("udp", r.target)
	if err != nil {
		return
	}
	buffer := make([]byte, 64<<10)
	for {
		n, _, err := r.packets.ReadFromUDP(buffer)
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err == nil && !r.isCut() {
			_, _ = r.packets.WriteToUDP(buffer[:n], target) // as lossy as any network
		}
	}
}

func (r *relay) forwardStreams() {
	for {
		client, err := r.streams.Accept()
		if err != nil {
			return
		}
		r.running.Go(func() {
			defer r.drop(client)
			server, err := net.DialTimeout("tcp", r.target, time.Second)
			if err != nil {
				return
			}
			defer r.drop(server)
			if !r.keep(client) || !r.keep(server) {
				return
			}
			done := make(chan struct{})
			go func() {
				defer close(done)
				_, _ = io.Copy(server, client)
				r.drop(server)
			}()
			_, _ = io.Copy(client, server)
			r.drop(client)
			<-done
		})
	}
}

func (r *relay) keep(conn net.Conn) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.open[conn] = struct{}{}
	return !r.apart
}

func (r *relay) drop(conn net.Conn) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.open, conn)
	_ = conn.Close()
}
