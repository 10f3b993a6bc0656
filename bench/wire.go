package bench

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"time"
)

// wire is one HTTP/1.1 connection that knows just enough: it writes requests that are ready, and reads status, length
// and body into memory that it reuses. It redials when the server has closed.
type wire struct {
	address  string
	deadline time.Time
	conn     net.Conn
	in       *bufio.Reader
	body     []byte
	// grace is how long an answer is still awaited when the context has ended: a push that nobody waits for is stored all
	// the same, and would make a queue anew that has been deleted in the meantime.
	grace time.Duration
	// unhook undoes the cutting of the connection when the context ends.
	unhook func() bool
}

const (
	wireBuffer  = 64 << 10
	dialTimeout = 2 * time.Second
)

// newWire connects at the first request. Everything fails after the deadline, which is set once a connection because
// setting it for each request would cost a timer each.
func newWire(address string, deadline time.Time) *wire {
	return &wire{address: address, deadline: deadline}
}

func (w *wire) dial(ctx context.Context) error {
	dialer := net.Dialer{Timeout: dialTimeout}
	conn, err := dialer.DialContext(ctx, "tcp", w.address)
	if err != nil {
		return err
	}
	if err := conn.SetDeadline(w.deadline); err != nil {
		return errors.Join(fmt.Errorf("set deadline: %w", err), conn.Close())
	}
	w.conn = conn
	w.unhook = context.AfterFunc(ctx, func() { _ = conn.SetDeadline(time.Now().Add(w.grace)) })
	if w.in == nil {
		w.in = bufio.NewReaderSize(conn, wireBuffer)
	} else {
		w.in.Reset(conn)
	}
	return nil
}

func (w *wire) close() {
	if w.conn == nil {
		return
	}
	w.unhook()
	_ = w.conn.Close()
	w.conn = nil
}

// do sends a request and returns the answer; the body is valid until the next call.
func (w *wire) do(ctx context.Context, request []byte) (status int, body []byte, err error) {
	if w.conn == nil {
		if err := w.dial(ctx); err != nil {
			return 0, nil, err
		}
	}
	if _, err := w.conn.Write(request); err != nil {
		w.close()
		return 0, nil, fmt.Errorf("write request: %w", err)
	}
	status, body, last, err := w.read()
	if err != nil || last {
		w.close()
	}
	if err != nil {
		return 0, nil, fmt.Errorf("read answer: %w", err)
	}
	return status, body, nil
}

var (
	headerLength   = []byte("content-length:")
	headerEncoding = []byte("transfer-encoding:")
	headerClose    = []byte("connection:")
)

func (w *wire) read() (status int, body []byte, last bool, err error) {
	line, err := w.in.ReadSlice('\n')
	if err != nil {
		return 0, nil, false, err
	}
	if len(line) < len("HTTP/1.1 200") || !bytes.HasPrefix(line, []byte("HTTP/1.")) {
		return 0, nil, false, fmt.Errorf("no HTTP answer: %q", line)
	}
	if status, err = strconv.Atoi(string(line[9:12])); err != nil {
		return 0, nil, false, fmt.Errorf("no status: %q", line)
	}
	length, chunked := 0, false
	for {
		line, err = w.in.ReadSlice('\n')
		if err != nil {
			return 0, nil, false, err
		}
		line = bytes.TrimRight(line, "\r\n")
		if len(line) == 0 {
			break
		}
		switch {
		case hasFold(line, headerLength):
			length, err = strconv.Atoi(string(bytes.TrimSpace(line[len(headerLength):])))
			if err != nil || length < 0 {
				return 0, nil, false, fmt.Errorf("bad length: %q", line)
			}
		case hasFold(line, headerEncoding):
			chunked = true
		case hasFold(line, headerClose):
			last = bytes.EqualFold(bytes.TrimSpace(line[len(headerClose):]), []byte("close"))
		}
	}
	w.body = w.body[:0]
	if chunked {
		err = w.readChunks()
	} else {
		err = w.readFull(length)
	}
	return status, w.body, last, err
}

func hasFold(line, prefix []byte) bool {
	return len(line) >= len(prefix) && bytes.EqualFold(line[:len(prefix)], prefix)
}

// readFull appends n bytes to the body.
func (w *wire) readFull(n int) error {
	start := len(w.body)
	if cap(w.body) < start+n {
		grown := make([]byte, start, max(start+n, 2*cap(w.body)))
		copy(grown, w.body)
		w.body = grown
	}
	w.body = w.body[:start+n]
	_, err := io.ReadFull(w.in, w.body[start:])
	return err
}

func (w *wire) readChunks() error {
	for {
		line, err := w.in.ReadSlice('\n')
		if err != nil {
			return err
		}
		size, _, _ := bytes.Cut(bytes.TrimRight(line, "\r\n"), []byte(";"))
		n, err := strconv.ParseUint(string(size), 16, 31)
		if err != nil {
			return fmt.Errorf("bad chunk: %q", line)
		}
		if n > 0 {
			if err := w.readFull(int(n)); err != nil {
				return err
			}
		}
		if _, err := w.in.Discard(len("\r\n")); err != nil {
			return err
		}
		if n == 0 {
			return nil
		}
	}
}
