package bench

import (
	"bufio"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"time"

	"github.com/google/uuid"
	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"

	"waggle/api"
	"waggle/broker"
)

// ServeNoStore runs the product's own HTTP side over a broker that stores nothing: it parses, validates and answers.
// It says on out where it listens, and ends with ctx or with the end of lifeline, so that it never outlives its parent.
func ServeNoStore(ctx context.Context, lifeline io.Reader, out io.Writer) error {
	registry := prometheus.NewRegistry()
	handler, err := api.New(api.Settings{}, api.Parts{
		Broker: &forgetfulBroker{}, Reads: nothingStored{}, Cluster: nothingStored{}, Health: nothingStored{}, Maintenance: nothingStored{}, Mesh: noMesh{}, Process: nothingStored{},
		Draining: func() bool { return false }, Gatherer: registry, Registerer: registry, Logger: zap.NewNop(),
	})
	if err != nil {
		return fmt.Errorf("build http side: %w", err)
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return fmt.Errorf("listen: %w", err)
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	go func() {
		_, _ = io.Copy(io.Discard, lifeline)
		cancel()
	}()
	server := &http.Server{Handler: handler, ReadHeaderTimeout: time.Minute}
	context.AfterFunc(ctx, func() { _ = server.Close() })
	fmt.Fprintf(out, "http://%s\n", listener.Addr())
	if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("serve: %w", err)
	}
	return nil
}

// forgetfulBroker answers as a broker does that has stored everything.
type forgetfulBroker struct {
	api.Broker
	pushed atomic.Uint64
}

// Push implements api.Broker.
func (b *forgetfulBroker) Push(_ context.Context, _ uuid.UUID, _ string, items []broker.PushItem) []broker.PushResult {
	results := make([]broker.PushResult, len(items))
	millis := uint64(time.Now().UnixMilli())
	last := b.pushed.Add(uint64(len(items)))
	for i, item := range items {
		id := &results[i].MessageID
		binary.BigEndian.PutUint64(id[:8], millis<<16|0x7000)
		binary.BigEndian.PutUint64(id[8:], 1<<63|(last-uint64(len(items)-i)))
		results[i].TransactionID = item.TransactionID
		results[i].Status = broker.Queued
	}
	return results
}

// nothingStored is the rest of what the HTTP side stands on. A benchmark asks nothing of its embedded parts.
type nothingStored struct {
	api.Reads
	api.Maintenance
	api.Process
	api.LeaderControl
}

func (nothingStored) View(context.Context) (api.ClusterView, error) { return api.ClusterView{}, nil }
func (nothingStored) Exchange() *api.Exchange                       { return nil }
func (nothingStored) Leader() *api.Leader                           { return nil }
func (nothingStored) Mesh() api.MeshStatus                          { return api.MeshStatus{} }
func (nothingStored) Database(context.Context) error                { return nil }
func (nothingStored) Readiness() api.Readiness                      { return api.Readiness{Ready: true} }

// noMesh stands for the mesh in the same way.
type noMesh struct{ api.Mesh }

// noStore is the process of the no-store yardstick: apart from the generator, as a broker is.
type noStore struct {
	broker   Broker
	process  *process
	lifeline io.Closer
	dir      string
}

func startNoStore(ctx context.Context, program string) (*noStore, error) {
	dir, err := os.MkdirTemp("", "waggle-bench-")
	if err != nil {
		return nil, fmt.Errorf("make directory: %w", err)
	}
	n := &noStore{dir: dir}
	command := exec.Command(program, "bench", "no-store")
	stdin, err := command.StdinPipe()
	if err != nil {
		return nil, errors.Join(fmt.Errorf("start no-store server: %w", err), n.stop())
	}
	n.lifeline = stdin
	reader, writer, err := os.Pipe()
	if err != nil {
		return nil, errors.Join(fmt.Errorf("start no-store server: %w", err), n.stop())
	}
	defer reader.Close()
	command.Stdout = writer
	n.process, err = startProcess(command, filepath.Join(dir, "no-store.log"))
	closed := writer.Close()
	if err := errors.Join(err, closed); err != nil {
		return nil, errors.Join(fmt.Errorf("start no-store server: %w", err), n.stop())
	}
	stop := context.AfterFunc(ctx, func() { _ = reader.Close() })
	defer stop()
	line, err := bufio.NewReader(reader).ReadString('\n')
	if err != nil {
		return nil, errors.Join(fmt.Errorf("read address of no-store server: %w\n%s", err, n.process.tail()), n.stop())
	}
	n.broker = Broker{Name: sideNoStore, HTTP: strings.TrimSpace(line), PID: command.Process.Pid}
	return n, nil
}

func (n *noStore) stop() error {
	var err error
	if n.lifeline != nil {
		_ = n.lifeline.Close()
	}
	if n.process != nil {
		err = n.process.stop()
	}
	return errors.Join(err, os.RemoveAll(n.dir))
}
