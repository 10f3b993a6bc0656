package api

import (
	"net/http"
	"strconv"
	"sync"
	"time"

	"github.com/google/uuid"

	"waggle/api/jsonwire"
	"waggle/broker"
)

// exchange is one request and its answer.
type exchange struct {
	server  *Server
	w       http.ResponseWriter
	r       *http.Request
	path    string
	pattern string
	names   []string
	tenant  uuid.UUID
	// producerSub is the sub of the caller's token; empty without one. It is stamped on whatever the request writes.
	producerSub string

	id      string
	started time.Time
	status  int
	written int
}

// statusClientGone counts requests whose client left before the answer. It is never sent.
const statusClientGone = 499

// Header values are shared slices: net/http only reads them, and a slice a request would be garbage.
var (
	contentJSON = []string{"application/json"}
	contentText = []string{"text/plain; charset=utf-8"}
	closing     = []string{"close"}
)

// buffers serves answers and bodies. What grew beyond maxPooled is left to the garbage collector, so that a burst of
// large messages does not hold memory for ever.
var buffers = sync.Pool{New: func() any { return &buffer{data: make([]byte, 0, 4096)} }}

type buffer struct{ data []byte }

const maxPooled = 1 << 20

func takeBuffer() *buffer {
	b := buffers.Get().(*buffer)
	b.data = b.data[:0]
	return b
}

func (b *buffer) release() {
	if cap(b.data) <= maxPooled {
		buffers.Put(b)
	}
}

// writeTimeout bounds how long a client may take to read a large answer.
const writeTimeout = time.Minute

// begin writes the status line and headers. A negative length is unknown: the answer goes out in chunks.
func (x *exchange) begin(status int, content []string, length int) {
	header := x.w.Header()
	if content != nil {
		header["Content-Type"] = content
	}
	if length >= 0 {
		header["Content-Length"] = []string{strconv.Itoa(length)}
	}
	if x.server.parts.Draining() {
		header["Connection"] = closing
	}
	x.status = status
	x.w.WriteHeader(status)
}

// write sends a part of the answer. An error means that the client is gone: there is nobody left to tell.
func (x *exchange) write(data []byte) error {
	if len(data) > smallAnswer {
		control := http.NewResponseController(x.w)
		_ = control.SetWriteDeadline(time.Now().Add(writeTimeout)) // a writer without deadlines has none to miss
		defer func() { _ = control.SetWriteDeadline(time.Time{}) }()
	}
	n, err := x.w.Write(data)
	x.written += n
	return err
}

// smallAnswer fits the socket's buffer: writing it does not wait for the client.
const smallAnswer = 16 << 10

func (x *exchange) json(status int, data []byte) {
	x.begin(status, contentJSON, len(data))
	_ = x.write(data)
}

// answer lets fill append the body of a JSON answer to a pooled buffer.
func (x *exchange) answer(status int, fill func(dst []byte) []byte) {
	b := takeBuffer()
	defer b.release()
	b.data = fill(b.data)
	x.json(status, b.data)
}

// noContent answers 204 with neither body nor Content-Length nor Content-Type.
func (x *exchange) noContent() { x.begin(http.StatusNoContent, nil, -1) }

// text answers what the contract calls framework errors.
func (x *exchange) text(status int, message string) {
	x.begin(status, contentText, len(message))
	_ = x.write([]byte(message))
}

// fail answers {"error":message}, with a code where there is one.
func (x *exchange) fail(status int, message, code string) {
	x.answer(status, func(dst []byte) []byte {
		dst = append(dst, `{"error":`...)
		dst = jsonwire.AppendString(dst, message)
		if code != "" {
			dst = append(dst, `,"code":`...)
			dst = jsonwire.AppendString(dst, code)
		}
		return append(dst, '}')
	})
}

func noSuchRoute(x *exchange) { x.fail(http.StatusNotFound, "Not Found", "no_such_route") }

// clientGone says whether there is nobody to answer any more.
func (x *exchange) clientGone() bool { return x.r.Context().Err() != nil }

const tenantHeader = "X-Queen-Tenant"

// resolveTenant sets the tenant of the request, or answers 400. Two different headers are as bad as a wrong one: a
// proxy that adds its header to the client's must not let the client choose.
func (x *exchange) resolveTenant() bool {
	x.tenant = broker.DefaultTenant
	if !x.server.settings.Tenancy {
		return true
	}
	values := x.r.Header[tenantHeader]
	if len(values) == 0 || len(values) == 1 && blank(values[0]) {
		return true
	}
	if len(values) == 1 && len(values[0]) == 36 { // Parse takes other forms too, of other lengths
		if tenant, err := uuid.Parse(values[0]); err == nil {
			x.tenant = tenant
			return true
		}
	}
	x.fail(http.StatusBadRequest, "invalid x-queen-tenant header (must be a UUID)", "")
	return false
}

func blank(text string) bool {
	for _, c := range []byte(text) {
		if c != ' ' && c != '\t' {
			return false
		}
	}
	return true
}
