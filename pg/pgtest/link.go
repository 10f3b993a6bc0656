package pgtest

import (
	"encoding/binary"
	"errors"
	"io"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// link is one connection through a proxy: two directions, each a reader and a writer with a bounded queue between them, so
// that a delay holds bytes back without slowing them down.
type link struct {
	proxy          *Proxy
	client, server net.Conn

	once sync.Once
	gone chan struct{} // closed when the link was cut
	// sprung is set when the trap let the statement through to the server: the answer is kept back, then the link is cut.
	sprung atomic.Pointer[trap]
}

// piece is what was read at once.
type piece struct {
	bytes []byte
	read  time.Time
}

const pieces = 64

func (l *link) run() {
	toServer, toClient := make(chan piece, pieces), make(chan piece, pieces)
	var all sync.WaitGroup
	all.Go(func() { defer close(toServer); l.readClient(toServer) })
	all.Go(func() { defer close(toClient); l.readServer(toClient) })
	all.Go(func() { l.write(l.server, toServer, ToServer) })
	all.Go(func() { l.write(l.client, toClient, ToClient) })
	all.Wait()
	l.cut()
}

// cut ends both sides with a reset rather than an orderly end, so that nothing that is under way arrives.
func (l *link) cut() {
	l.once.Do(func() {
		close(l.gone)
		for _, side := range []net.Conn{l.client, l.server} {
			if tcp, ok := side.(*net.TCPConn); ok {
				_ = tcp.SetLinger(0)
			}
			side.Close()
		}
	})
}

// readClient follows the protocol message by message (manual, section 55.7), to see the statements.
func (l *link) readClient(out chan<- piece) {
	follow := follower{reader: l.client, statements: map[string]string{}, portals: map[string]string{}}
	for {
		message, sql, err := follow.next()
		if err != nil {
			return
		}
		synced := message[0] == 'S' && len(message) == 5
		if sql != "" {
			if t := l.proxy.caught(sql, synced); t != nil {
				if t.moment == BeforeServer {
					l.cut()
					close(t.fired)
					return
				}
				l.sprung.Store(t)
			}
		}
		if !l.send(out, message) {
			return
		}
	}
}

// readServer passes on what the server says. Once the trap has sprung it keeps everything back and waits until the server is
// ready for the next query, which it says after the commit.
func (l *link) readServer(out chan<- piece) {
	for {
		buffer := make([]byte, 32<<10)
		n, err := l.server.Read(buffer)
		if err != nil {
			return
		}
		if t := l.sprung.Load(); t != nil {
			l.springAfter(t, buffer[:n])
			return
		}
		if !l.send(out, buffer[:n]) {
			return
		}
	}
}

func (l *link) springAfter(t *trap, answer []byte) {
	for !endsReady(answer) {
		buffer := make([]byte, 32<<10)
		n, err := l.server.Read(buffer)
		if err != nil {
			break
		}
		answer = append(answer, buffer[:n]...)
	}
	l.cut()
	close(t.fired)
}

// endsReady looks for ReadyForQuery outside a transaction at the end of what the server said.
func endsReady(answer []byte) bool {
	const ready = "Z\x00\x00\x00\x05I"
	return strings.HasSuffix(string(answer), ready)
}

func (l *link) send(out chan<- piece, bytes []byte) bool {
	select {
	case out <- piece{bytes: bytes, read: time.Now()}:
		return true
	case <-l.gone:
		return false
	}
}

// write ends the other side's hearing when this direction has ended.
func (l *link) write(to net.Conn, in <-chan piece, direction Direction) {
	for p := range in {
		if !l.hold(p.read, direction) || (direction == ToClient && l.sprung.Load() != nil) {
			return
		}
		if _, err := to.Write(p.bytes); err != nil {
			l.cut()
			return
		}
	}
	if l.sprung.Load() == nil && l.hold(time.Now(), direction) {
		if tcp, ok := to.(*net.TCPConn); ok {
			_ = tcp.CloseWrite()
		}
	}
}

// hold waits out the delay and the black hole, and reports whether the link still stands.
func (l *link) hold(read time.Time, direction Direction) bool {
	for {
		delay, hole := l.proxy.conditions(direction)
		if hole != nil {
			select {
			case <-hole:
				continue
			case <-l.gone:
				return false
			}
		}
		left := time.Until(read.Add(delay))
		if left <= 0 {
			return true
		}
		timer := time.NewTimer(left)
		select {
		case <-timer.C:
		case <-l.gone:
			timer.Stop()
			return false
		}
	}
}

// follower cuts a client's bytes into messages and remembers what prepared statements and portals stand for.
type follower struct {
	reader     io.Reader
	started    bool
	statements map[string]string
	portals    map[string]string
	executed   []string // since the last sync
}

const maxMessage = 64 << 20

// next returns a whole message, and the statement that it executes, if it does; for a Sync, which ends an implicit
// transaction, all statements that were executed since the last one.
func (f *follower) next() (message []byte, sql string, err error) {
	header := 5
	if !f.started { // the first message of a connection has no type
		header = 4
	}
	message = make([]byte, header)
	if _, err := io.ReadFull(f.reader, message); err != nil {
		return nil, "", err
	}
	length := int(binary.BigEndian.Uint32(message[header-4:])) - 4
	if length < 0 || length > maxMessage {
		return nil, "", errors.New("not a message of the protocol")
	}
	message = append(message, make([]byte, length)...)
	if _, err := io.ReadFull(f.reader, message[header:]); err != nil {
		return nil, "", err
	}
	if !f.started {
		f.started = true
		return message, "", nil
	}
	return message, f.statement(message[0], string(message[header:])), nil
}

func (f *follower) statement(kind byte, body string) string {
	first, rest, _ := strings.Cut(body, "\x00")
	second, _, _ := strings.Cut(rest, "\x00")
	switch kind {
	case 'Q': // simple query
		return first
	case 'P': // parse: statement name, text
		f.statements[first] = second
	case 'B': // bind: portal, statement name
		f.portals[first] = f.statements[second]
	case 'E': // execute: portal
		f.executed = append(f.executed, f.portals[first])
		return f.portals[first]
	case 'S': // sync
		all := strings.Join(f.executed, ";\n")
		f.executed = nil
		return all
	}
	return ""
}

// isCommit also finds it at the end of a simple query of several statements.
func isCommit(sql string) bool {
	sql = strings.TrimRight(strings.ToLower(sql), "; \n\t")
	return sql == "commit" || sql == "end" || strings.HasSuffix(sql, ";commit") || strings.HasSuffix(sql, "; commit")
}
