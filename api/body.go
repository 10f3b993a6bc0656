package api

import (
	"context"
	"errors"
	"io"
	"net/http"
	"time"
)

var (
	errBodyTooLarge = errors.New("body too large")
	errBodyMemory   = errors.New("no memory for bodies")
)

const (
	firstBodyPiece = 64 << 10
	// bodyMemoryWait is how long a request may wait for others to give up body memory.
	bodyMemoryWait = 2 * time.Second
)

// body is the whole body of a request. Its bytes are good until release.
type body struct {
	*buffer
	server   *Server
	reserved int64
}

func (b *body) release() {
	b.server.bodyMemory.Release(b.reserved)
	b.buffer.release()
}

// readBody reads the body, whatever its Content-Type says. When it cannot, it answers and returns nil.
func (x *exchange) readBody() *body {
	control := http.NewResponseController(x.w)
	// Without a ReadTimeout on the server, which would cut parked pops, a body needs a limit of its own; and it must
	// be lifted again, because the deadline would also end the wait for the client's going away.
	_ = control.SetReadDeadline(time.Now().Add(x.server.settings.BodyTimeout))
	b, err := x.fetchBody()
	_ = control.SetReadDeadline(time.Time{})
	switch {
	case err == nil:
		return b
	case errors.Is(err, errBodyTooLarge):
		x.text(http.StatusRequestEntityTooLarge, "length limit exceeded")
	case errors.Is(err, errBodyMemory):
		x.fail(http.StatusInternalServerError, "too many request bodies at once", "")
	default:
		x.fail(http.StatusBadRequest, "bad body: "+err.Error(), "")
	}
	return nil
}

func (x *exchange) fetchBody() (_ *body, err error) {
	limit := x.server.settings.MaxBodyBytes
	if x.r.ContentLength > limit {
		x.w.Header()["Connection"] = closing // or the server would read on to find the next request
		return nil, errBodyTooLarge
	}
	// One byte more than the largest body: reading it is how a longer one is found out.
	whole := limit + 1
	if x.r.ContentLength >= 0 {
		whole = x.r.ContentLength + 1
	}
	b := &body{buffer: takeBuffer(), server: x.server}
	defer func() {
		if err != nil {
			b.release()
		}
	}()
	if err := b.grow(x.r.Context(), min(whole, firstBodyPiece)); err != nil {
		return nil, err
	}
	for {
		if len(b.data) == cap(b.data) {
			if err := b.grow(x.r.Context(), min(whole, 2*int64(cap(b.data)))); err != nil {
				return nil, err
			}
		}
		n, err := x.r.Body.Read(b.data[len(b.data):cap(b.data)])
		b.data = b.data[:len(b.data)+n]
		if int64(len(b.data)) > limit {
			x.w.Header()["Connection"] = closing
			return nil, errBodyTooLarge
		}
		if err == io.EOF { //nolint:errorlint // readers return it bare
			return b, nil
		}
		if err != nil {
			return nil, err
		}
	}
}

// grow makes room for size bytes in all, once the memory of all bodies together allows it. Memory is taken as bytes
// arrive, not as they are announced.
func (b *body) grow(ctx context.Context, size int64) error {
	if want := min(size, b.server.settings.BodyMemory) - b.reserved; want > 0 {
		if !b.server.bodyMemory.TryAcquire(want) {
			ctx, cancel := context.WithTimeoutCause(ctx, bodyMemoryWait, errBodyMemory)
			defer cancel()
			if b.server.bodyMemory.Acquire(ctx, want) != nil {
				return context.Cause(ctx)
			}
		}
		b.reserved += want
	}
	if int64(cap(b.data)) < size {
		larger := make([]byte, len(b.data), size)
		copy(larger, b.data)
		b.data = larger
	}
	return nil
}
