package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync/atomic"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
)

// rabbit is a quorum queue of RabbitMQ, which flushes what it confirms.
type rabbit struct {
	command *exec.Cmd
	url     string
	topics  atomic.Int64
}

func (r *rabbit) name() string { return "rabbitmq-quorum" }
func (r *rabbit) settings() string {
	return "quorum queue, publisher confirms awaited once a batch, prefetch 200, multiple acks once a batch"
}

func (r *rabbit) start(ctx context.Context, folder string) error {
	program, err := find("rabbitmq-server")
	if err != nil {
		return err
	}
	ports := make([]int, 3)
	for i := range ports {
		if ports[i], err = freePort(); err != nil {
			return err
		}
	}
	data := filepath.Join(folder, "rabbit")
	if err := os.MkdirAll(data, 0o777); err != nil {
		return err
	}
	r.command = exec.Command(program)
	r.command.Env = append(os.Environ(), "HOME="+data, fmt.Sprintf("RABBITMQ_NODENAME=peers%d@localhost", ports[0]), fmt.Sprintf("RABBITMQ_NODE_PORT=%d", ports[0]),
		fmt.Sprintf("RABBITMQ_DIST_PORT=%d", ports[1]), fmt.Sprintf("ERL_EPMD_PORT=%d", ports[2]),
		"RABBITMQ_MNESIA_BASE="+data, "RABBITMQ_LOG_BASE="+data, "RABBITMQ_NODE_IP_ADDRESS=127.0.0.1", "RABBITMQ_PID_FILE="+filepath.Join(data, "pid"))
	log, err := os.Create(filepath.Join(data, "output"))
	if err != nil {
		return err
	}
	defer log.Close()
	r.command.Stdout, r.command.Stderr = log, log
	if err := r.command.Start(); err != nil {
		return err
	}
	r.url = fmt.Sprintf("amqp://guest:guest@127.0.0.1:%d/", ports[0])
	for range 120 {
		var conn *amqp.Connection
		if conn, err = amqp.Dial(r.url); err == nil {
			return conn.Close()
		}
		sleep(ctx, 500*time.Millisecond)
	}
	r.stop()
	text, _ := os.ReadFile(log.Name())
	return fmt.Errorf("%w: %s", err, text)
}

func (r *rabbit) stop() {
	_ = r.command.Process.Signal(os.Interrupt)
	done := make(chan struct{})
	go func() { _ = r.command.Wait(); close(done) }()
	select {
	case <-done:
	case <-time.After(15 * time.Second):
		_ = r.command.Process.Kill()
	}
}

func (r *rabbit) pids() []int      { return []int{r.command.Process.Pid} }
func (r *rabbit) ordersKeys() bool { return false }

func (r *rabbit) topic(_ context.Context, w work) (topic, error) {
	t := &rabbitTopic{url: r.url, work: w, queue: fmt.Sprintf("q%d", r.topics.Add(1))}
	channel, err := t.channel()
	if err != nil {
		return nil, err
	}
	_, err = channel.QueueDeclare(t.queue, true, false, false, false, amqp.Table{"x-queue-type": "quorum"})
	return t, err
}

type rabbitTopic struct {
	url   string
	work  work
	queue string
	conns []*amqp.Connection
}

func (t *rabbitTopic) channel() (*amqp.Channel, error) {
	conn, err := amqp.Dial(t.url)
	if err != nil {
		return nil, err
	}
	t.conns = append(t.conns, conn)
	return conn.Channel()
}

func (t *rabbitTopic) producer(context.Context) (func(context.Context, []message) error, error) {
	channel, err := t.channel()
	if err != nil {
		return nil, err
	}
	if err := channel.Confirm(false); err != nil {
		return nil, err
	}
	return func(ctx context.Context, batch []message) error {
		confirms := make([]*amqp.DeferredConfirmation, len(batch))
		for i, m := range batch {
			var err error
			confirms[i], err = channel.PublishWithDeferredConfirmWithContext(ctx, "", t.queue, false, false,
				amqp.Publishing{DeliveryMode: amqp.Persistent, Body: m.payload})
			if err != nil {
				return err
			}
		}
		for _, c := range confirms {
			if ok, err := c.WaitContext(ctx); err != nil || !ok {
				return fmt.Errorf("not confirmed: %v", err)
			}
		}
		return nil
	}, nil
}

func (t *rabbitTopic) consume(ctx context.Context, _ int, handle func([][]byte)) error {
	conn, err := amqp.Dial(t.url)
	if err != nil {
		return err
	}
	defer conn.Close()
	channel, err := conn.Channel()
	if err != nil {
		return err
	}
	if err := channel.Qos(200, 0, false); err != nil {
		return err
	}
	deliveries, err := channel.Consume(t.queue, "", false, false, false, false, nil)
	if err != nil {
		return err
	}
	for {
		var last amqp.Delivery
		var payloads [][]byte
		select {
		case <-ctx.Done():
			return nil
		case d, open := <-deliveries:
			if !open {
				return fmt.Errorf("the channel was closed")
			}
			last, payloads = d, append(payloads, d.Body)
		}
		for more := true; more && len(payloads) < t.work.batch; {
			select {
			case d, open := <-deliveries:
				if more = open; open {
					last, payloads = d, append(payloads, d.Body)
				}
			default:
				more = false
			}
		}
		if err := last.Ack(true); err != nil {
			return err
		}
		handle(payloads)
	}
}

func (t *rabbitTopic) close() {
	for _, c := range t.conns {
		_ = c.Close()
	}
}
