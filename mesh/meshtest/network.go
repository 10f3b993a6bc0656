package meshtest

import (
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"sync"
	"time"
)

// queueLength is how many packets and streams wait for a transport that does not take them; more packets are lost,
// as in a socket's buffer.
const queueLength = 4096

var errRefused = errors.New("connection refused")

// Network connects transports. Its zero value is not usable; make one with NewNetwork. All methods may be called at
// any time from any goroutine.
type Network struct {
	mu        sync.Mutex // guards the rest
	random    *rand.Rand
	next      int
	endpoints map[string]*Transport
	loss      float64
	doubling  float64
	jitter    time.Duration
	cut       map[path]cutKind
	stalled   map[path]chan struct{}
	frozen    map[string]bool
	sent      map[path]int
	recorded  map[path][][]byte // nil where nobody records
}

// path is a direction between two addresses.
type path struct{ from, to string }

type cutKind int

const (
	cutPackets cutKind = iota + 1
	cutAll
)

// NewNetwork makes a network whose losses and delays are drawn from the seed.
func NewNetwork(seed uint64) *Network {
	return &Network{
		random:    rand.New(rand.NewPCG(seed, seed)),
		endpoints: make(map[string]*Transport),
		cut:       make(map[path]cutKind),
		stalled:   make(map[path]chan struct{}),
		frozen:    make(map[string]bool),
		sent:      make(map[path]int),
		recorded:  make(map[path][][]byte),
	}
}

// Transport makes a transport with an address of its own.
func (n *Network) Transport() *Transport {
	n.mu.Lock()
	n.next++
	address := fmt.Sprintf("10.0.%d.%d:6633", n.next/250, n.next%250+1)
	n.mu.Unlock()
	return n.TransportAt(address)
}

// TransportAt makes a transport with the given ip:port, which may be that of one that was shut down.
func (n *Network) TransportAt(address string) *Transport {
	n.mu.Lock()
	defer n.mu.Unlock()
	t := newTransport(n, address)
	n.endpoints[address] = t
	return t
}

// SetLoss makes each packet get lost with this probability.
func (n *Network) SetLoss(probability float64) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.loss = probability
}

// SetDoubling makes each packet arrive twice with this probability.
func (n *Network) SetDoubling(probability float64) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.doubling = probability
}

// SetJitter delays each packet by a random time below this, which brings them out of order.
func (n *Network) SetJitter(below time.Duration) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.jitter = below
}

// Cut stops everything between two addresses, and ends the streams between them.
func (n *Network) Cut(a, b string) { n.setCut(a, b, cutAll) }

// CutPackets stops packets between two addresses; streams still work, as with a firewall that knows only TCP.
func (n *Network) CutPackets(a, b string) { n.setCut(a, b, cutPackets) }

// CutOneWay stops packets from one address to another and no new stream is opened in that direction; what goes the
// other way arrives.
func (n *Network) CutOneWay(from, to string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.cut[path{from, to}] = cutAll
	n.endStreams(from, to)
}

// Heal undoes a cut.
func (n *Network) Heal(a, b string) { n.setCut(a, b, 0) }

// Freeze makes an address that of a process that is stopped: nothing it sends leaves, packets to it are lost, streams
// to it are accepted and never answered. The returned function undoes it.
func (n *Network) Freeze(address string) (thaw func()) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.frozen[address] = true
	return func() {
		n.mu.Lock()
		defer n.mu.Unlock()
		delete(n.frozen, address)
	}
}

func (n *Network) setCut(a, b string, kind cutKind) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.cut[path{a, b}], n.cut[path{b, a}] = kind, kind
	if kind == cutAll {
		n.endStreams(a, b)
	}
}

// endStreams ends the streams between two addresses. The caller holds the lock.
func (n *Network) endStreams(a, b string) {
	for _, t := range []*Transport{n.endpoints[a], n.endpoints[b]} {
		if t != nil {
			t.closeStreams(a, b)
		}
	}
}

// Stall makes every send of a packet from one address to another block, until the returned function is called.
func (n *Network) Stall(from, to string) (release func()) {
	gate := make(chan struct{})
	n.mu.Lock()
	n.stalled[path{from, to}] = gate
	n.mu.Unlock()
	return sync.OnceFunc(func() {
		n.mu.Lock()
		delete(n.stalled, path{from, to})
		n.mu.Unlock()
		close(gate)
	})
}

// Inject delivers a packet, as it would be on the wire, as if a stranger had sent it.
func (n *Network) Inject(to string, data []byte) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.arrive("192.0.2.1:9", to, data)
}

// Record keeps what is sent from one address to another, until the returned function takes it.
func (n *Network) Record(from, to string) (take func() [][]byte) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.recorded[path{from, to}] = [][]byte{}
	return func() [][]byte {
		n.mu.Lock()
		defer n.mu.Unlock()
		packets := n.recorded[path{from, to}]
		delete(n.recorded, path{from, to})
		return packets
	}
}

// Sent is how many packets were sent from one address to another, those that got lost included.
func (n *Network) Sent(from, to string) int {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.sent[path{from, to}]
}

// SentBy is how many packets were sent from an address, to anywhere.
func (n *Network) SentBy(from string) int {
	n.mu.Lock()
	defer n.mu.Unlock()
	sum := 0
	for way, count := range n.sent {
		if way.from == from {
			sum += count
		}
	}
	return sum
}

// send puts a packet on its way. It returns a gate to wait for when the destination is stalled.
func (n *Network) send(from, to string, data []byte) (gate <-chan struct{}) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.sent[path{from, to}]++
	if kept := n.recorded[path{from, to}]; kept != nil {
		n.recorded[path{from, to}] = append(kept, append([]byte(nil), data...))
	}
	if gate, stalled := n.stalled[path{from, to}]; stalled {
		return gate
	}
	if n.cut[path{from, to}] != 0 || n.frozen[from] || n.frozen[to] || n.random.Float64() < n.loss {
		return nil
	}
	n.carry(from, to, append([]byte(nil), data...))
	if n.random.Float64() < n.doubling {
		n.carry(from, to, append([]byte(nil), data...))
	}
	return nil
}

// carry lets a packet arrive when its delay has passed. The caller holds the lock.
func (n *Network) carry(from, to string, data []byte) {
	if n.jitter <= 0 {
		n.arrive(from, to, data)
		return
	}
	time.AfterFunc(time.Duration(n.random.Int64N(int64(n.jitter))), func() {
		n.mu.Lock()
		defer n.mu.Unlock()
		n.arrive(from, to, data)
	})
}

// arrive hands a packet to its destination, if that still exists and has room. The caller holds the lock.
func (n *Network) arrive(from, to string, data []byte) {
	if t := n.endpoints[to]; t != nil {
		t.packet(from, data)
	}
}

// dial opens a stream. The caller's end is returned.
func (n *Network) dial(from *Transport, to string, timeout time.Duration) (net.Conn, error) {
	n.mu.Lock()
	target, cut := n.endpoints[to], n.cut[path{from.address, to}] == cutAll || n.frozen[from.address]
	deaf := n.frozen[to]
	n.mu.Unlock()
	if cut {
		select {
		case <-time.After(timeout):
			return nil, dialError(to, os.ErrDeadlineExceeded)
		case <-from.done:
			return nil, dialError(to, net.ErrClosed)
		}
	}
	if target == nil {
		return nil, dialError(to, errRefused)
	}
	near, far := net.Pipe()
	if deaf {
		// Its kernel accepts and keeps what comes, and nobody answers.
		go func() { _, _ = io.Copy(io.Discard, far) }()
		c := &conn{Conn: near, local: from.address, remote: to, owner: from}
		from.track(c)
		return c, nil
	}
	if !target.accept(&conn{Conn: far, local: target.address, remote: from.address, owner: target}) {
		_ = near.Close()
		return nil, dialError(to, errRefused)
	}
	c := &conn{Conn: near, local: from.address, remote: to, owner: from}
	from.track(c)
	return c, nil
}

func dialError(to string, err error) error {
	return &net.OpError{Op: "dial", Net: "tcp", Addr: address(to), Err: err}
}

// forget takes a transport off the network, unless another one has its address by now.
func (n *Network) forget(t *Transport) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.endpoints[t.address] == t {
		delete(n.endpoints, t.address)
	}
}
