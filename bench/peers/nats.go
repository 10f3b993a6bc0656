package main

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	natsclient "github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// nats is JetStream with file storage. The server runs in this process: its time cannot be told from that of the clients.
type nats struct {
	// syncAlways makes it flush each message to the disk before it is acknowledged, as all others here do.
	syncAlways bool
	server     *server.Server
	conns      []*natsclient.Conn
	topics     atomic.Int64
}

func (n *nats) name() string {
	if n.syncAlways {
		return "nats-sync"
	}
	return "nats-default"
}

func (n *nats) settings() string {
	if n.syncAlways {
		return "JetStream, work queue, file storage, sync always, explicit acks, async publish in batches; in this process"
	}
	return "the same without sync always: for information, it loses acknowledged messages when the machine fails"
}

func (n *nats) start(_ context.Context, folder string) error {
	var err error
	n.server, err = server.NewServer(&server.Options{
		Host: "127.0.0.1", Port: -1, JetStream: true, StoreDir: filepath.Join(folder, n.name()), SyncAlways: n.syncAlways, NoLog: true, NoSigs: true,
	})
	if err != nil {
		return err
	}
	n.server.Start()
	if !n.server.ReadyForConnections(10 * time.Second) {
		return errors.New("the server is not ready")
	}
	return nil
}

func (n *nats) stop() {
	for _, c := range n.conns {
		c.Close()
	}
	n.server.Shutdown()
	n.server.WaitForShutdown()
}

func (n *nats) pids() []int      { return nil }
func (n *nats) ordersKeys() bool { return false }

func (n *nats) connect() (jetstream.JetStream, error) {
	conn, err := natsclient.Connect(n.server.ClientURL())
	if err != nil {
		return nil, err
	}
	n.conns = append(n.conns, conn)
	return jetstream.New(conn, jetstream.WithPublishAsyncMaxPending(4096))
}

func (n *nats) topic(ctx context.Context, w work) (topic, error) {
	stream, err := n.connect()
	if err != nil {
		return nil, err
	}
	t := &natsTopic{nats: n, work: w, subject: fmt.Sprintf("s%d", n.topics.Add(1))}
	t.name = "S" + t.subject
	if _, err := stream.CreateStream(ctx, jetstream.StreamConfig{
		Name: t.name, Subjects: []string{t.subject}, Retention: jetstream.WorkQueuePolicy, Storage: jetstream.FileStorage,
	}); err != nil {
		return nil, err
	}
	t.consumer, err = stream.CreateConsumer(ctx, t.name, jetstream.ConsumerConfig{
		Durable: "c", AckPolicy: jetstream.AckExplicitPolicy, MaxAckPending: 20_000, AckWait: time.Minute,
	})
	return t, err
}

type natsTopic struct {
	nats          *nats
	work          work
	name, subject string
	consumer      jetstream.Consumer
}

func (t *natsTopic) producer(context.Context) (func(context.Context, []message) error, error) {
	stream, err := t.nats.connect()
	if err != nil {
		return nil, err
	}
	return func(ctx context.Context, batch []message) error {
		if len(batch) == 1 {
			_, err := stream.Publish(ctx, t.subject, batch[0].payload)
			return err
		}
		futures := make([]jetstream.PubAckFuture, len(batch))
		for i, m := range batch {
			if futures[i], err = stream.PublishAsync(t.subject, m.payload); err != nil {
				return err
			}
		}
		for _, f := range futures {
			select {
			case <-f.Ok():
			case err := <-f.Err():
				return err
			case <-time.After(30 * time.Second):
				return errors.New("no acknowledgement")
			}
		}
		return nil
	}, nil
}

func (t *natsTopic) consume(ctx context.Context, _ int, handle func([][]byte)) error {
	for ctx.Err() == nil {
		batch, err := t.consumer.Fetch(max(t.work.batch, 1), jetstream.FetchMaxWait(time.Second))
		if err != nil {
			return err
		}
		for m := range batch.Messages() {
			if err := m.Ack(); err != nil {
				return err
			}
			handle([][]byte{m.Data()})
		}
	}
	return nil
}

func (t *natsTopic) close() {}
