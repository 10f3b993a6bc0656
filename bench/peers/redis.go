package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"
)

// redisStreams is a stream with a consumer group, each write flushed to the disk.
type redisStreams struct {
	command *exec.Cmd
	client  *redis.Client
	topics  atomic.Int64
}

func (r *redisStreams) name() string { return "redis-streams" }
func (r *redisStreams) settings() string {
	return "appendonly, appendfsync always, pipelined XADD, XREADGROUP with count, XACK and XDEL pipelined"
}

func (r *redisStreams) start(ctx context.Context, folder string) error {
	program, err := find("redis-server")
	if err != nil {
		return err
	}
	port, err := freePort()
	if err != nil {
		return err
	}
	data := filepath.Join(folder, "redis")
	if err := os.Mkdir(data, 0o755); err != nil {
		return err
	}
	r.command = exec.Command(program, "--port", fmt.Sprint(port), "--bind", "127.0.0.1", "--dir", data, "--appendonly", "yes",
		"--appendfsync", "always", "--save", "")
	if err := r.command.Start(); err != nil {
		return err
	}
	r.client = redis.NewClient(&redis.Options{Addr: fmt.Sprintf("127.0.0.1:%d", port), PoolSize: 64, ReadTimeout: 10 * time.Second})
	for range 100 {
		if err = r.client.Ping(ctx).Err(); err == nil {
			return nil
		}
		sleep(ctx, 50*time.Millisecond)
	}
	return err
}

func (r *redisStreams) stop() {
	_ = r.client.Close()
	_ = r.command.Process.Kill()
	_ = r.command.Wait()
}

func (r *redisStreams) pids() []int      { return []int{r.command.Process.Pid} }
func (r *redisStreams) ordersKeys() bool { return false }

func (r *redisStreams) topic(ctx context.Context, w work) (topic, error) {
	t := &redisTopic{client: r.client, work: w, stream: fmt.Sprintf("s%d", r.topics.Add(1))}
	return t, r.client.XGroupCreateMkStream(ctx, t.stream, "g", "0").Err()
}

type redisTopic struct {
	client *redis.Client
	work   work
	stream string
}

func (t *redisTopic) producer(context.Context) (func(context.Context, []message) error, error) {
	return func(ctx context.Context, batch []message) error {
		_, err := t.client.Pipelined(ctx, func(p redis.Pipeliner) error {
			for _, m := range batch {
				p.XAdd(ctx, &redis.XAddArgs{Stream: t.stream, Values: []any{"p", m.payload}})
			}
			return nil
		})
		return err
	}, nil
}

func (t *redisTopic) consume(ctx context.Context, worker int, handle func([][]byte)) error {
	for ctx.Err() == nil {
		streams, err := t.client.XReadGroup(ctx, &redis.XReadGroupArgs{
			Group: "g", Consumer: fmt.Sprint(worker), Streams: []string{t.stream, ">"}, Count: int64(t.work.batch), Block: time.Second,
		}).Result()
		if errors.Is(err, redis.Nil) {
			continue
		}
		if err != nil {
			return err
		}
		var ids []string
		var payloads [][]byte
		for _, m := range streams[0].Messages {
			ids = append(ids, m.ID)
			payloads = append(payloads, []byte(m.Values["p"].(string)))
		}
		_, err = t.client.Pipelined(context.WithoutCancel(ctx), func(p redis.Pipeliner) error {
			p.XAck(ctx, t.stream, "g", ids...)
			p.XDel(ctx, t.stream, ids...)
			return nil
		})
		if err != nil {
			return err
		}
		handle(payloads)
	}
	return nil
}

func (t *redisTopic) close() {}
