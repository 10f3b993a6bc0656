package bench

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"time"

	"github.com/google/uuid"

	"waggle/client"
)

// Config says what to measure and for how long.
type Config struct {
	// Rows are names of the budget; their yardsticks are measured too.
	Rows []string
	// Rounds is how often each side is measured; a row is the median.
	Rounds int
	// Side is how long a side counts, WarmUp how long it runs before.
	Side   time.Duration
	WarmUp time.Duration
	// Records is how many messages a drain starts with.
	Records int64
	// Idle is how many partitions the row sparse has beside the active ones.
	Idle int
	// AckLast makes consumers acknowledge only the last message of a batch instead of each.
	AckLast bool
	// Program is the waggle binary, which serves the no-store yardstick.
	Program string
	// Version is shown in the report.
	Version string
	// Progress is told what is being measured.
	Progress io.Writer
}

// Shapes of the sides; the budget's text says the same.
const (
	connections1   = 256
	connections100 = 16
	partitions     = 16
	partitionsWide = 1000
	partitionsLive = 64
	batch100       = 100
	consumers100   = 16
	consumersLive1 = 64

	// A live row is about consumers that keep up: pushers wait while so much is unconsumed.
	backlog100 = 40_000
	backlog1   = 4_000

	cleanPatience = 10 * time.Second
	purgePatience = 60 * time.Second
	drainPatience = 60 * time.Second
	liveGrace     = 20 * time.Second
)

// runner is one run.
type runner struct {
	config  Config
	cluster Cluster
	targets []string
	client  *client.Client
	db      *database
	noStore *noStore
	// queues are what the current round has made.
	queues  []string
	notes   []string
	samples map[string][]*sample
}

// Run measures the rows. Rows whose yardstick is out of reach, because the database's URL is unknown, come without
// ratio. Whether a budget is met is in the report, not in the error.
func Run(ctx context.Context, cluster Cluster, config Config) (_ *Report, err error) {
	specs, err := selectRows(config.Rows)
	if err != nil {
		return nil, err
	}
	r := &runner{config: config, cluster: cluster, samples: map[string][]*sample{}}
	defer func() { err = errors.Join(err, r.close()) }()
	if err := r.open(ctx); err != nil {
		return nil, err
	}
	sides := r.sidesOf(specs)
	if slices.Contains(sides, sideNoStore) {
		if r.noStore, err = startNoStore(ctx, config.Program); err != nil {
			return nil, err
		}
	}
	for round := range config.Rounds {
		for _, side := range sides {
			if err := r.measure(ctx, round, side); err != nil {
				return nil, fmt.Errorf("measure %s: %w", side, err)
			}
		}
		if err := r.clean(ctx); err != nil {
			return nil, err
		}
	}
	return r.report(specs), nil
}

func selectRows(names []string) ([]rowSpec, error) {
	var specs []rowSpec
	for _, spec := range budget {
		if slices.Contains(names, spec.name) {
			specs = append(specs, spec)
		}
	}
	for _, name := range names {
		if !slices.Contains(RowNames(), name) {
			return nil, fmt.Errorf("there is no row %q", name)
		}
	}
	return specs, nil
}

func (r *runner) open(ctx context.Context) error {
	urls := make([]string, len(r.cluster.Brokers))
	for i, b := range r.cluster.Brokers {
		address, err := b.address()
		if err != nil {
			return err
		}
		r.targets = append(r.targets, address)
		urls[i] = b.HTTP
	}
	if len(urls) == 0 {
		return errors.New("the cluster has no brokers")
	}
	var err error
	if r.client, err = client.New(client.Config{URLs: urls}); err != nil {
		return err
	}
	for _, h := range r.client.Health(ctx) {
		if h.Err != nil {
			return fmt.Errorf("broker %s is not healthy: %w", h.URL, h.Err)
		}
	}
	if r.cluster.Postgres == "" {
		r.note("the database's URL is not known: no yardsticks on it, no counters")
		return nil
	}
	r.db, err = openDatabase(ctx, r.cluster.Postgres)
	return err
}

func (r *runner) close() error {
	var errs []error
	if len(r.queues) > 0 {
		// The run was cut off; its context is over.
		ctx, cancel := context.WithTimeout(context.Background(), cleanPatience)
		defer cancel()
		errs = append(errs, r.deleteQueues(ctx))
	}
	if r.noStore != nil {
		errs = append(errs, r.noStore.stop())
	}
	if r.db != nil {
		errs = append(errs, r.db.close())
	}
	if r.client != nil {
		r.client.Close()
	}
	return errors.Join(errs...)
}

func (r *runner) note(format string, args ...any) {
	text := fmt.Sprintf(format, args...)
	if !slices.Contains(r.notes, text) {
		r.notes = append(r.notes, text)
		r.say("note: %s", text)
	}
}

func (r *runner) say(format string, args ...any) {
	fmt.Fprintf(r.config.Progress, format+"\n", args...)
}

// sidesOf are the sides that the rows need and that can be measured here, in their order.
func (r *runner) sidesOf(specs []rowSpec) []string {
	needed := map[string]bool{}
	for _, spec := range specs {
		needed[spec.side] = true
		needed[spec.yardstick] = true
	}
	if r.db == nil {
		delete(needed, sideBlobs)
		delete(needed, sideUpdate)
	}
	if len(r.cluster.Brokers) < 2 && (needed[sideCluster] || needed[sideWake]) {
		r.note("cluster and wake need two brokers and are left out")
		delete(needed, sideCluster)
		delete(needed, sideWake)
	}
	sides := slices.Collect(maps.Keys(needed))
	slices.SortFunc(sides, func(a, b string) int { return slices.Index(sideOrder, a) - slices.Index(sideOrder, b) })
	return sides
}

// measure runs one side of one round.
func (r *runner) measure(ctx context.Context, round int, side string) error {
	if r.db != nil {
		if err := r.db.settle(ctx); err != nil {
			return fmt.Errorf("checkpoint: %w", err)
		}
	}
	got, err := r.side(ctx, side)
	if err != nil {
		return err
	}
	if err := context.Cause(ctx); err != nil {
		return err
	}
	if got.messages == 0 {
		if got.failure != nil {
			return got.failure
		}
		return errors.New("nothing got through")
	}
	if got.failed > 0 {
		r.note("%s: failed calls, the first one: %v", side, got.failure)
	}
	r.samples[side] = append(r.samples[side], got)
	r.say("round %d/%d  %-10s %s", round+1, r.config.Rounds, side, describe(side, got))
	return nil
}

func describe(side string, got *sample) string {
	if side == sideWake || side == sideUpdate {
		return fmt.Sprintf("p50 %.2f ms, p99 %.2f ms of %d", got.quantile(50), got.quantile(99), got.messages)
	}
	text := fmt.Sprintf("%.0f/s, p50 %.2f ms, p99 %.2f ms", got.rate, got.quantile(50), got.quantile(99))
	if us := func(d time.Duration) float64 { return float64(d.Nanoseconds()) / 1000 / float64(got.messages) }; got.cost.postgres >= 0 {
		text += fmt.Sprintf(", cpu us: brokers %.1f, postgres %.1f", us(got.cost.brokers), us(got.cost.postgres))
	}
	if got.tally != nil && !got.tally.clean() {
		text += "; AUDIT: " + got.tally.String()
	}
	return text
}

// newQueue names a queue of this round and creates its partitions, so that no side pays for that.
func (r *runner) newQueue(ctx context.Context, side string, partitions int) (name, prefix string, err error) {
	id := uuid.New()
	prefix = fmt.Sprintf("%x", id[:markPrefix/2])
	name = "bench-" + side + "-" + prefix
	r.queues = append(r.queues, name)
	items := make([]client.Item, 0, partitions)
	for p := range partitions {
		items = append(items, client.Item{Queue: name, Partition: partitionName(p), Payload: []byte(`{"prime":true}`)})
	}
	for chunk := range slices.Chunk(items, 500) {
		results, err := r.client.Push(ctx, chunk)
		if err != nil {
			return "", "", fmt.Errorf("create partitions: %w", err)
		}
		for _, result := range results {
			if result.Status != client.Queued {
				return "", "", fmt.Errorf("create partitions: an item was %s", result.Status)
			}
		}
	}
	return name, prefix, nil
}

// beginGroup registers a group that sees what comes from now on.
func (r *runner) beginGroup(ctx context.Context, queue, group string) error {
	got, err := r.client.Pop(ctx, client.PopRequest{Queue: queue, Group: group, Mode: "new", Batch: 1})
	if err == nil && got != nil {
		err = errors.New("it got a message from before its time")
	}
	if err != nil {
		return fmt.Errorf("begin group %s: %w", group, err)
	}
	return nil
}

// takePrimes consumes the messages that made the partitions, so that a drain finds only its own. It registers the group
// if there is one.
func (r *runner) takePrimes(ctx context.Context, queue, group string, partitions int) error {
	for taken := 0; taken < partitions; {
		got, err := r.client.Pop(ctx, client.PopRequest{
			Queue: queue, Group: group, Mode: "all", Batch: partitions, Partitions: -1, Wait: true, Timeout: 5 * time.Second,
		})
		if err != nil {
			return fmt.Errorf("consume primes: %w", err)
		}
		if got == nil {
			return fmt.Errorf("consume primes: only %d of %d came", taken, partitions)
		}
		results, err := r.client.AckBatch(ctx, group, got.Completed())
		if err != nil {
			return fmt.Errorf("acknowledge primes: %w", err)
		}
		for _, result := range results {
			if !result.Success {
				return fmt.Errorf("acknowledge primes: %s", result.Error)
			}
		}
		taken += len(got.Messages)
	}
	return nil
}

// clean removes the round's queues and waits until nothing is left to purge.
func (r *runner) clean(ctx context.Context) error {
	if err := r.deleteQueues(ctx); err != nil {
		return err
	}
	if r.db == nil {
		return nil
	}
	if _, err := r.db.conn.Exec(ctx, emptyScratch); err != nil {
		return fmt.Errorf("empty scratch table: %w", err)
	}
	if err := r.db.awaitPurge(ctx, purgePatience); err != nil {
		if ctx.Err() != nil {
			return err
		}
		r.note("deleted queues were still being purged while the next round ran: %v", err)
	}
	return nil
}

func (r *runner) deleteQueues(ctx context.Context) error {
	for len(r.queues) > 0 {
		if _, err := r.client.DeleteQueue(ctx, r.queues[0]); err != nil {
			return fmt.Errorf("delete queue: %w", err)
		}
		r.queues = r.queues[1:]
	}
	return nil
}
