package main

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

// skipLocked is the queue that everybody writes first: a table, and consumers that skip what others have locked. A message
// is deleted in the transaction that took it.
type skipLocked struct {
	postgres *postgres
	pool     *pgxpool.Pool
}

func (s *skipLocked) name() string { return "skip-locked" }
func (s *skipLocked) settings() string {
	return "delete ... for update skip locked in batches, polling every 5 ms when empty; PostgreSQL: " + postgresSettings
}

func (s *skipLocked) start(ctx context.Context, _ string) (err error) {
	s.pool, err = s.postgres.database(ctx, "skiplocked")
	return err
}

func (s *skipLocked) stop()            { s.pool.Close() }
func (s *skipLocked) pids() []int      { return []int{s.postgres.pid} }
func (s *skipLocked) ordersKeys() bool { return false }

func (s *skipLocked) topic(ctx context.Context, w work) (topic, error) {
	_, err := s.pool.Exec(ctx, "drop table if exists jobs; create table jobs (id bigserial primary key, payload bytea not null)")
	return &skipLockedTopic{s.pool, w}, err
}

type skipLockedTopic struct {
	pool *pgxpool.Pool
	work work
}

func (t *skipLockedTopic) producer(context.Context) (func(context.Context, []message) error, error) {
	return func(ctx context.Context, batch []message) error {
		payloads := make([][]byte, len(batch))
		for i, m := range batch {
			payloads[i] = m.payload
		}
		_, err := t.pool.Exec(ctx, "insert into jobs (payload) select unnest($1::bytea[])", payloads)
		return err
	}, nil
}

func (t *skipLockedTopic) consume(ctx context.Context, _ int, handle func([][]byte)) error {
	for ctx.Err() == nil {
		var payloads [][]byte
		err := pgx.BeginFunc(context.WithoutCancel(ctx), t.pool, func(tx pgx.Tx) error {
			rows, err := tx.Query(ctx, `delete from jobs where id = any (array(
				select id from jobs order by id limit $1 for update skip locked)) returning payload`, t.work.batch)
			if err != nil {
				return err
			}
			payloads, err = pgx.CollectRows(rows, pgx.RowTo[[]byte])
			return err
		})
		if err != nil {
			return err
		}
		if len(payloads) == 0 {
			sleep(ctx, 5*time.Millisecond)
			continue
		}
		handle(payloads)
	}
	return nil
}

func (t *skipLockedTopic) close() {}
