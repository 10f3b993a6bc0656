package main

import (
	"context"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	riverqueue "github.com/riverqueue/river"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"
	"github.com/riverqueue/river/rivermigrate"
)

// river is the job queue for Go on PostgreSQL.
type river struct {
	postgres *postgres
	pool     *pgxpool.Pool
	topics   atomic.Int64
}

func (r *river) name() string { return "river" }
func (r *river) settings() string {
	return "InsertManyFast, one client with 100 workers, FetchCooldown 20 ms; PostgreSQL: " + postgresSettings
}

func (r *river) start(ctx context.Context, _ string) (err error) {
	if r.pool, err = r.postgres.database(ctx, "river"); err != nil {
		return err
	}
	migrator, err := rivermigrate.New(riverpgxv5.New(r.pool), nil)
	if err != nil {
		return err
	}
	_, err = migrator.Migrate(ctx, rivermigrate.DirectionUp, nil)
	return err
}

func (r *river) stop()            { r.pool.Close() }
func (r *river) pids() []int      { return []int{r.postgres.pid} }
func (r *river) ordersKeys() bool { return false }

// job is what River stores of a message.
type job struct {
	Payload []byte `json:"payload"`
}

// Kind implements river.JobArgs.
func (job) Kind() string { return "message" }

type worker struct {
	riverqueue.WorkerDefaults[job]
	handle func([][]byte)
}

// Work implements river.Worker.
func (w *worker) Work(_ context.Context, j *riverqueue.Job[job]) error {
	w.handle([][]byte{j.Args.Payload})
	return nil
}

func (r *river) topic(ctx context.Context, _ work) (topic, error) {
	if _, err := r.pool.Exec(ctx, "truncate river_job"); err != nil {
		return nil, err
	}
	client, err := riverqueue.NewClient(riverpgxv5.New(r.pool), &riverqueue.Config{})
	return &riverTopic{pool: r.pool, client: client, queue: fmt.Sprintf("q%d", r.topics.Add(1))}, err
}

type riverTopic struct {
	pool   *pgxpool.Pool
	client *riverqueue.Client[pgx.Tx]
	queue  string
}

func (t *riverTopic) producer(context.Context) (func(context.Context, []message) error, error) {
	return func(ctx context.Context, batch []message) error {
		jobs := make([]riverqueue.InsertManyParams, len(batch))
		for i, m := range batch {
			jobs[i] = riverqueue.InsertManyParams{Args: job{m.payload}, InsertOpts: &riverqueue.InsertOpts{Queue: t.queue}}
		}
		_, err := t.client.InsertManyFast(ctx, jobs)
		return err
	}, nil
}

// consume has one client do the work of all consumers, as River means it.
func (t *riverTopic) consume(ctx context.Context, number int, handle func([][]byte)) error {
	if number > 0 {
		return nil
	}
	workers := riverqueue.NewWorkers()
	riverqueue.AddWorker(workers, &worker{handle: handle})
	client, err := riverqueue.NewClient(riverpgxv5.New(t.pool), &riverqueue.Config{
		Queues: map[string]riverqueue.QueueConfig{t.queue: {MaxWorkers: 100}}, Workers: workers,
		FetchCooldown: 20 * time.Millisecond, FetchPollInterval: 100 * time.Millisecond,
		Logger: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		return err
	}
	if err := client.Start(context.WithoutCancel(ctx)); err != nil {
		return err
	}
	<-ctx.Done()
	stopping, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	return client.Stop(stopping)
}

func (t *riverTopic) close() {}
