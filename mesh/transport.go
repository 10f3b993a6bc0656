package mesh

import (
	"context"
	"fmt"
	"log"
	"net"
	"strings"
	"sync"
	"time"

	"github.com/hashicorp/memberlist"
)

// sockets is the library's network transport, with connections that end when it is shut down: the library itself
// lets dials and reads in flight run into their timeouts.
type sockets struct {
	*memberlist.NetTransport
	cancel  context.CancelFunc
	dialing context.Context
	streams chan net.Conn
	ended   sync.WaitGroup

	mu   sync.Mutex // guards open and shut
	open map[*trackedConn]struct{}
	shut bool
}

var _ memberlist.NodeAwareTransport = (*sockets)(nil)

// listen binds TCP and UDP to the same port.
func listen(host string, port int, logger *log.Logger) (*sockets, error) {
	cfg := &memberlist.NetTransportConfig{BindAddrs: []string{host}, BindPort: port, Logger: logger}
	tries := 1
	if port == 0 {
		// The kernel chooses a port that is free for TCP; it may be taken for UDP.
		tries = 20
	}
	var inner *memberlist.NetTransport
	var err error
	for range tries {
		if inner, err = memberlist.NewNetTransport(cfg); err == nil {
			break
		}
	}
	if err != nil {
		// The library does not wrap the cause, only its text is left.
		if strings.Contains(err.Error(), "address already in use") {
			return nil, fmt.Errorf("%w: %s", ErrAddressInUse, net.JoinHostPort(host, fmt.Sprint(port)))
		}
		return nil, fmt.Errorf("listen for the mesh: %w", err)
	}
	s := &sockets{NetTransport: inner, streams: make(chan net.Conn), open: make(map[*trackedConn]struct{})}
	s.dialing, s.cancel = context.WithCancel(context.Background())
	s.ended.Add(1)
	go s.forward()
	return s, nil
}

// forward keeps track of the connections that come in.
func (s *sockets) forward() {
	defer s.ended.Done()
	for {
		select {
		case conn := <-s.NetTransport.StreamCh():
			select {
			case s.streams <- s.track(conn):
			case <-s.dialing.Done():
				_ = conn.Close()
			}
		case <-s.dialing.Done():
			return
		}
	}
}

// StreamCh is where the library takes incoming connections from.
func (s *sockets) StreamCh() <-chan net.Conn { return s.streams }

// DialTimeout opens a connection to host:port.
func (s *sockets) DialTimeout(address string, timeout time.Duration) (net.Conn, error) {
	return s.DialAddressTimeout(memberlist.Address{Addr: address}, timeout)
}

// DialAddressTimeout opens a connection to a node.
func (s *sockets) DialAddressTimeout(address memberlist.Address, timeout time.Duration) (net.Conn, error) {
	dialer := net.Dialer{Timeout: timeout}
	conn, err := dialer.DialContext(s.dialing, "tcp", address.Addr)
	if err != nil {
		// Unwrapped: the library looks at the type to tell a refused connection from a fault of its own.
		return nil, err
	}
	return s.track(conn), nil
}

// Shutdown closes the listeners and every connection.
func (s *sockets) Shutdown() error {
	err := s.NetTransport.Shutdown()
	s.cancel()
	s.ended.Wait()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.shut = true
	for conn := range s.open {
		_ = conn.Conn.Close()
	}
	return err
}

func (s *sockets) track(conn net.Conn) *trackedConn {
	t := &trackedConn{Conn: conn, owner: s}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.shut {
		_ = conn.Close()
		return t
	}
	s.open[t] = struct{}{}
	return t
}

type trackedConn struct {
	net.Conn
	owner *sockets
}

// Close closes the connection and forgets it.
func (t *trackedConn) Close() error {
	t.owner.mu.Lock()
	delete(t.owner.open, t)
	t.owner.mu.Unlock()
	return t.Conn.Close()
}
