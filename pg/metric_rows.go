package pg

import (
	"context"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
)

// QueueActivity is what was done for a queue. Lag is how old messages were when they were popped; LagMax and Parked are the
// highest values, all others sums.
type QueueActivity struct {
	Queue             int64
	PushRequests      int64
	PushMessages      int64
	PopRequests       int64
	PopMessages       int64
	PopEmpty          int64
	AckRequests       int64
	AckSuccess        int64
	AckFailed         int64
	Transactions      int64
	PartitionsCreated int64
	DeadLetters       int64
	Expired           int64
	Completed         int64
	Evicted           int64
	RetentionSteps    int64
	LagCount          int64
	LagSumMillis      int64
	LagMaxMillis      int64
	Parked            int64
	// Conflated are messages that conflating groups were moved past without having been given them.
	Conflated int64
}

// fields are the numbers in the order of the columns.
func (a *QueueActivity) fields() []*int64 {
	return []*int64{
		&a.PushRequests, &a.PushMessages, &a.PopRequests, &a.PopMessages, &a.PopEmpty, &a.AckRequests, &a.AckSuccess, &a.AckFailed,
		&a.Transactions, &a.PartitionsCreated, &a.DeadLetters, &a.Expired, &a.Completed, &a.Evicted, &a.RetentionSteps,
		&a.LagCount, &a.LagSumMillis, &a.LagMaxMillis, &a.Parked, &a.Conflated,
	}
}

// BrokerActivity is how a broker was. Memory, PoolSize and PoolIdle are sums over Samples.
type BrokerActivity struct {
	Samples   int64
	CPUUser   time.Duration
	CPUSystem time.Duration
	Elapsed   time.Duration
	Memory    int64
	PoolSize  int64
	PoolIdle  int64
	DBErrors  int64
	// Transactions counts into the totals only.
	Transactions int64
}

// WriteMetrics adds what a broker did since its last call to the rows of this minute and to the totals.
func (d *DB) WriteMetrics(ctx context.Context, broker string, queues []QueueActivity, self BrokerActivity) error {
	ids := make([]int64, len(queues))
	var values []int64
	for i := range queues {
		ids[i] = queues[i].Queue
		for _, field := range queues[i].fields() {
			values = append(values, *field)
		}
	}
	err := d.write(ctx, func(tx pgx.Tx) error {
		batch := &pgx.Batch{}
		if len(ids) > 0 {
			batch.Queue(statement("queue_metric_write"), broker, ids, values)
		}
		batch.Queue(statement("metric_total_write"), values, self.DBErrors, self.Transactions)
		batch.Queue(statement("broker_metric_write"), broker, self.CPUUser.Milliseconds(), self.CPUSystem.Milliseconds(),
			self.Elapsed.Milliseconds(), self.Memory, self.PoolSize, self.PoolIdle, self.DBErrors)
		return tx.SendBatch(ctx, batch).Close()
	})
	if err != nil {
		return fmt.Errorf("write metrics: %w", err)
	}
	return nil
}

// SeriesFilter says which rows to read. Nil fields select all; Minutes is what a row covers, Step what a bucket does.
type SeriesFilter struct {
	Minutes   int
	Step      int
	From, To  time.Time
	Tenant    *uuid.UUID
	Queue     *string
	Namespace *string
	Task      *string
	ByQueue   bool
	ByBroker  bool
}

// QueuePoint is a bucket of a series, of one queue and broker or, without a name, of all.
type QueuePoint struct {
	Bucket time.Time
	Name   string
	Broker string
	QueueActivity
}

// QueueSeries reads what was done, newest first.
func (d *DB) QueueSeries(ctx context.Context, f SeriesFilter) ([]QueuePoint, error) {
	return collect(ctx, d.pool, "queue_metric_read", func(row pgx.CollectableRow) (p QueuePoint, err error) {
		into := []any{&p.Bucket, &p.Name, &p.Broker}
		for _, field := range p.fields() {
			into = append(into, field)
		}
		err = row.Scan(into...)
		return p, err
	}, f.Minutes, f.From, f.To, f.Step, optionalUUID(f.Tenant), f.Queue, f.Namespace, f.Task, f.ByQueue, f.ByBroker)
}

func optionalUUID(id *uuid.UUID) *[16]byte {
	if id == nil {
		return nil
	}
	raw := [16]byte(*id)
	return &raw
}

// BrokerPoint is a bucket of one broker's series.
type BrokerPoint struct {
	Bucket time.Time
	Broker string
	BrokerActivity
}

// BrokerSeries reads how brokers were, newest first.
func (d *DB) BrokerSeries(ctx context.Context, f SeriesFilter) ([]BrokerPoint, error) {
	return collect(ctx, d.pool, "broker_metric_read", func(row pgx.CollectableRow) (p BrokerPoint, err error) {
		var user, system, elapsed int64
		err = row.Scan(&p.Bucket, &p.Broker, &p.Samples, &user, &system, &elapsed, &p.Memory, &p.PoolSize, &p.PoolIdle, &p.DBErrors)
		p.CPUUser, p.CPUSystem = time.Duration(user)*time.Millisecond, time.Duration(system)*time.Millisecond
		p.Elapsed = time.Duration(elapsed) * time.Millisecond
		return p, err
	}, f.Minutes, f.From, f.To, f.Step)
}

// RollUpMetrics sums whole hours up, a day a call at most. Doing it twice changes nothing.
func (f *Fenced) RollUpMetrics(ctx context.Context) (rows int64, more bool, err error) {
	err = f.Do(ctx, func(ctx context.Context, tx pgx.Tx) error {
		var from *time.Time
		var to time.Time
		if err := tx.QueryRow(ctx, statement("metric_rolled")).Scan(&from, &to); err != nil || from == nil || !from.Before(to) {
			return err
		}
		if day := from.Add(24 * time.Hour); day.Before(to) {
			to, more = day, true
		}
		for _, name := range []string{"queue_metric_roll_up", "broker_metric_roll_up"} {
			tag, err := tx.Exec(ctx, statement(name), *from, to)
			if err != nil {
				return err
			}
			rows += tag.RowsAffected()
		}
		return nil
	})
	if err != nil {
		return 0, false, fmt.Errorf("roll up metrics: %w", err)
	}
	// Only the hour that was the last before is done again: there is no more where nothing new came.
	return rows, more && rows > 0, nil
}

const metricBatch = 2000

// CleanMetrics deletes rows that are older than keep.
func (f *Fenced) CleanMetrics(ctx context.Context, keep time.Duration) (rows int64, more bool, err error) {
	err = f.Do(ctx, func(ctx context.Context, tx pgx.Tx) error {
		return tx.QueryRow(ctx, statement("metric_clean"), keep.Seconds(), metricBatch).Scan(&rows)
	})
	if err != nil {
		return 0, false, fmt.Errorf("clean metrics: %w", err)
	}
	return rows, rows >= metricBatch, nil
}

// QueueMinute is the last whole minute of the queues with a name; the empty name stands for all that are not shown alone.
type QueueMinute struct {
	Name string
	QueueActivity
	Letters int64
	Age     float64
}

// QueueMinutes reads it, for limit names at most.
func (d *DB) QueueMinutes(ctx context.Context, limit int) ([]QueueMinute, error) {
	return collect(ctx, d.pool, "queue_minutes", func(row pgx.CollectableRow) (m QueueMinute, err error) {
		err = row.Scan(&m.Name, &m.PushMessages, &m.PushRequests, &m.PopMessages, &m.PopEmpty, &m.AckSuccess, &m.AckFailed, &m.Transactions,
			&m.Parked, &m.LagSumMillis, &m.LagCount, &m.LagMaxMillis, &m.Letters, &m.Conflated, &m.Age)
		return m, err
	}, limit)
}

// ClusterTotals is what the whole cluster has ever done, as far as brokers have written it.
type ClusterTotals struct {
	PushRequests int64
	PushMessages int64
	PopRequests  int64
	PopMessages  int64
	AckRequests  int64
	AckSuccess   int64
	AckFailed    int64
	Transactions int64
	DeadLetters  int64
	DBErrors     int64
}

// ClusterTotals reads it.
func (d *DB) ClusterTotals(ctx context.Context) (t ClusterTotals, err error) {
	rows, err := d.pool.Query(ctx, statement("metric_totals"))
	if err == nil {
		t, err = pgx.CollectExactlyOneRow(rows, pgx.RowToStructByPos[ClusterTotals])
	}
	if err != nil {
		return ClusterTotals{}, fmt.Errorf("read totals: %w", err)
	}
	return t, nil
}
