package meshtest

import (
	"net"
	"net/netip"
	"sync"
	"time"

	"github.com/hashicorp/memberlist"
)

// Transport is one broker's place on a Network. It goes into mesh.Config.
type Transport struct {
	network *Network
	address string
	packets chan *memberlist.Packet
	streams chan net.Conn
	done    chan struct{}

	mu     sync.Mutex // guards the rest
	open   map[*conn]struct{}
	closed bool
}

var _ memberlist.NodeAwareTransport = (*Transport)(nil)

func newTransport(n *Network, address string) *Transport {
	return &Transport{
		network: n, address: address,
		packets: make(chan *memberlist.Packet, queueLength), streams: make(chan net.Conn, queueLength),
		done: make(chan struct{}), open: make(map[*conn]struct{}),
	}
}

// Address is the transport's ip:port.
func (t *Transport) Address() string { return t.address }

// FinalAdvertiseAddr is the transport's own address, whatever is configured.
func (t *Transport) FinalAdvertiseAddr(string, int) (net.IP, int, error) {
	parsed, err := netip.ParseAddrPort(t.address)
	if err != nil {
		return nil, 0, err
	}
	return parsed.Addr().AsSlice(), int(parsed.Port()), nil
}

// WriteTo sends a packet.
func (t *Transport) WriteTo(data []byte, to string) (time.Time, error) {
	return t.WriteToAddress(data, memberlist.Address{Addr: to})
}

// WriteToAddress sends a packet.
func (t *Transport) WriteToAddress(data []byte, to memberlist.Address) (time.Time, error) {
	select {
	case <-t.done:
		return time.Time{}, net.ErrClosed
	default:
	}
	if gate := t.network.send(t.address, to.Addr, data); gate != nil {
		select {
		case <-gate:
		case <-t.done:
			return time.Time{}, net.ErrClosed
		}
	}
	return time.Now(), nil
}

// PacketCh is where packets arrive.
func (t *Transport) PacketCh() <-chan *memberlist.Packet { return t.packets }

// StreamCh is where streams arrive.
func (t *Transport) StreamCh() <-chan net.Conn { return t.streams }

// DialTimeout opens a stream.
func (t *Transport) DialTimeout(to string, timeout time.Duration) (net.Conn, error) {
	return t.network.dial(t, to, timeout)
}

// DialAddressTimeout opens a stream.
func (t *Transport) DialAddressTimeout(to memberlist.Address, timeout time.Duration) (net.Conn, error) {
	return t.network.dial(t, to.Addr, timeout)
}

// Shutdown takes the transport off the network and ends its streams.
func (t *Transport) Shutdown() error {
	t.network.forget(t)
	t.mu.Lock()
	if t.closed {
		t.mu.Unlock()
		return nil
	}
	t.closed = true
	close(t.done)
	open := t.open
	t.open = make(map[*conn]struct{})
	t.mu.Unlock()
	for c := range open {
		_ = c.Conn.Close()
	}
	return nil
}

// packet takes a packet if there is room for it.
func (t *Transport) packet(from string, data []byte) {
	select {
	case t.packets <- &memberlist.Packet{Buf: data, From: address(from), Timestamp: time.Now()}:
	default:
	}
}

// accept takes a stream and reports false when the transport is shut down.
func (t *Transport) accept(c *conn) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.closed {
		_ = c.Conn.Close()
		return false
	}
	select {
	case t.streams <- c:
	default:
		_ = c.Conn.Close()
		return false
	}
	t.open[c] = struct{}{}
	return true
}

func (t *Transport) track(c *conn) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.closed {
		_ = c.Conn.Close()
		return
	}
	t.open[c] = struct{}{}
}

// closeStreams ends the streams between two addresses.
func (t *Transport) closeStreams(a, b string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for c := range t.open {
		if (c.local == a && c.remote == b) || (c.local == b && c.remote == a) {
			_ = c.Conn.Close()
		}
	}
}

// conn is one end of a stream.
type conn struct {
	net.Conn
	local, remote string
	owner         *Transport
}

// Close ends the stream.
func (c *conn) Close() error {
	c.owner.mu.Lock()
	delete(c.owner.open, c)
	c.owner.mu.Unlock()
	return c.Conn.Close()
}

// LocalAddr is the address of this end.
func (c *conn) LocalAddr() net.Addr { return address(c.local) }

// RemoteAddr is the address of the other end.
func (c *conn) RemoteAddr() net.Addr { return address(c.remote) }

// address is an ip:port as a net.Addr.
type address string

// Network names the kind of address.
func (a address) Network() string { return "meshtest" }

// String is the ip:port.
func (a address) String() string { return string(a) }
