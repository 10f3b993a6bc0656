package pgtest

import (
	"net"
	"net/url"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// Proxy stands between clients and a server and disturbs what they say. It speaks plain text: its URL says sslmode=disable.
type Proxy struct {
	listener net.Listener
	address  string
	running  sync.WaitGroup

	mu     sync.Mutex
	target string             // guarded by mu, as all below
	links  map[*link]struct{} // that are open
	delay  time.Duration
	holes  [2]chan struct{} // by Direction; not nil while nothing passes; closed when it passes again
	trap   *trap
	ended  bool
}

// Direction is a way that bytes go.
type Direction int

const (
	// ToServer is from a client to the server.
	ToServer Direction = iota
	// ToClient is from the server to a client.
	ToClient
)

// Moment is when a trap cuts the connection.
type Moment int

const (
	// BeforeServer cuts before the server has seen the statement: it has not happened.
	BeforeServer Moment = iota
	// BeforeAnswer cuts when the server has answered, and keeps the answer back: it has happened, and the client does not know.
	BeforeAnswer
)

type trap struct {
	when   func(sql string) bool
	sync   bool
	moment Moment
	fired  chan struct{}
}

// NewProxy starts a proxy in front of the server that a connection URL leads to, and ends it with the test.
func NewProxy(t testing.TB, address string) *Proxy {
	t.Helper()
	target, err := url.Parse(address)
	require.NoError(t, err, "parse server url")
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err, "listen for proxy")
	p := &Proxy{listener: listener, target: target.Host, links: map[*link]struct{}{}}
	target.Host = listener.Addr().String()
	p.address = target.String()
	p.running.Go(p.accept)
	t.Cleanup(p.close)
	return p
}

// URL leads through the proxy, with the role and database of the URL that it was made with.
func (p *Proxy) URL() string { return p.address }

// Cut ends all connections at once, as a lost network path does once it is noticed. New ones are welcome.
func (p *Proxy) Cut() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for link := range p.links {
		link.cut()
	}
}

// Blackhole swallows: connections stay open, new ones are accepted, and no byte passes until it is turned off. Then what was
// waiting passes.
func (p *Proxy) Blackhole(on bool) {
	p.Swallow(ToServer, on)
	p.Swallow(ToClient, on)
}

// Swallow is a black hole in one direction. The end of a connection does not pass it either.
func (p *Proxy) Swallow(direction Direction, on bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	hole := &p.holes[direction]
	switch {
	case on && *hole == nil:
		*hole = make(chan struct{})
	case !on && *hole != nil:
		close(*hole)
		*hole = nil
	}
}

// Redirect leads new connections to the server of another URL, as a service address does after a failover. Those that are
// open stay where they are.
func (p *Proxy) Redirect(t testing.TB, address string) {
	t.Helper()
	target, err := url.Parse(address)
	require.NoError(t, err, "parse server url")
	p.mu.Lock()
	defer p.mu.Unlock()
	p.target = target.Host
}

// Delay holds every byte back for d, in each direction.
func (p *Proxy) Delay(d time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.delay = d
}

// Links is the number of connections that are open.
func (p *Proxy) Links() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.links)
}

// CutOn sets a trap, in place of an earlier one: the connection on which the next statement that matches is sent is cut at the
// given moment. The statement is seen whether it is sent as text or was prepared before. The channel is closed when the
// connection has been cut.
func (p *Proxy) CutOn(moment Moment, when func(sql string) bool) (fired <-chan struct{}) {
	return p.set(&trap{when: when, moment: moment, fired: make(chan struct{})})
}

// CutOnSync sets a trap for the next Sync message that ends an implicit transaction of several statements whose texts,
// joined, match.
func (p *Proxy) CutOnSync(moment Moment, when func(sql string) bool) (fired <-chan struct{}) {
	return p.set(&trap{when: when, sync: true, moment: moment, fired: make(chan struct{})})
}

func (p *Proxy) set(t *trap) (fired <-chan struct{}) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.trap = t
	return t.fired
}

// CutOnCommit sets a trap for the next COMMIT.
func (p *Proxy) CutOnCommit(moment Moment) (fired <-chan struct{}) {
	return p.CutOn(moment, isCommit)
}

// caught takes the trap away when the statement matches.
func (p *Proxy) caught(sql string, synced bool) *trap {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.trap == nil || p.trap.sync != synced || !p.trap.when(sql) {
		return nil
	}
	t := p.trap
	p.trap = nil
	return t
}

func (p *Proxy) conditions(direction Direction) (delay time.Duration, hole <-chan struct{}) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.delay, p.holes[direction]
}

func (p *Proxy) accept() {
	for {
		client, err := p.listener.Accept()
		if err != nil {
			return
		}
		p.running.Go(func() { p.serve(client) })
	}
}

func (p *Proxy) serve(client net.Conn) {
	p.mu.Lock()
	target := p.target
	p.mu.Unlock()
	server, err := net.Dial("tcp", target)
	if err != nil {
		client.Close() // as a server that is down would
		return
	}
	l := &link{proxy: p, client: client, server: server, gone: make(chan struct{})}
	p.mu.Lock()
	if p.ended {
		l.cut()
	}
	p.links[l] = struct{}{}
	p.mu.Unlock()
	l.run()
	p.mu.Lock()
	delete(p.links, l)
	p.mu.Unlock()
}

func (p *Proxy) close() {
	p.mu.Lock()
	p.ended = true
	p.mu.Unlock()
	p.listener.Close()
	p.Cut()
	p.running.Wait()
}
