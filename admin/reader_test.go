package admin

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"waggle/broker/wireid"
	"waggle/pg"
	"waggle/pg/pgtest"
)

// bundle is a database of its own with a reader on it.
type bundle struct {
	*testing.T
	db     *pg.DB
	reader *Reader
	ids    *wireid.Codec
	tenant uuid.UUID
}

func setup(t *testing.T) *bundle {
	t.Parallel()
	database := pgtest.New(t)
	db, err := pg.Open(t.Context(), pg.Config{URL: database.URL, MaxConns: 8, ApplicationName: "admin test", Knows: pg.Knows{System: 1, Record: 1}})
	require.NoError(t, err)
	t.Cleanup(db.Close)
	ids, err := wireid.NewCodec([]byte("test"))
	require.NoError(t, err)
	options := func(stored []byte) (map[string]any, error) {
		all := map[string]any{"leaseTime": 300, "priority": 0}
		return all, json.Unmarshal(stored, &all)
	}
	return &bundle{T: t, db: db, ids: ids, tenant: uuid.New(), reader: NewReader(db, ids, options)}
}

func (b *bundle) insert(statement string, args ...any) (id int64) {
	b.Helper()
	require.NoError(b, b.db.Pool().QueryRow(b.Context(), statement+" returning id", args...).Scan(&id))
	return id
}

func (b *bundle) exec(statement string, args ...any) {
	b.Helper()
	_, err := b.db.Pool().Exec(b.Context(), statement, args...)
	require.NoError(b, err)
}

func (b *bundle) queue(name string) int64 {
	return b.insert(`insert into waggle.queue (tenant, name, namespace, task) values ($1, $2, 'ns', 'tk')`, b.tenant, name)
}

func (b *bundle) partition(queue int64, name string) int64 {
	return b.insert(`insert into waggle.partition (queue_id, name) values ($1, $2)`, queue, name)
}

// segment stores count records from base on; no size means that retention emptied it.
func (b *bundle) segment(partition, base, count int64, size int, at time.Time) {
	var body []byte
	if size > 0 {
		body = make([]byte, size)
	}
	b.exec(`insert into waggle.segment (partition_id, base_offset, created_at, count, format, ids, body)
		values ($1, $2, $3, $4, 1, '', $5)`, partition, base, at, count, body)
}

func (b *bundle) group(queue int64, name string, registered bool) int64 {
	return b.insert(`insert into waggle.consumer_group (queue_id, name, registered_at)
		values ($1, $2, case when $3::boolean then now() end)`, queue, name, registered)
}

// cursor stands at committed; leased is the end of a lease that lasts for seconds more.
func (b *bundle) cursor(partition, group, committed int64, leased *int64, seconds int) {
	b.insert(`insert into waggle.cursor (partition_id, group_id, committed, batch_end, lease, lease_expires_at)
		values ($1, $2, $3, $4, gen_random_uuid(), now() + make_interval(secs => $5))`, partition, group, committed, leased, seconds)
}

func (b *bundle) only(name string) QueueSummary {
	b.Helper()
	b.refresh()
	queues, err := b.reader.Queues(b.Context(), b.tenant)
	require.NoError(b, err)
	for _, q := range queues {
		if q.Name == name {
			return q
		}
	}
	b.Fatal("no such queue")
	return QueueSummary{}
}

var past = time.Date(2031, 4, 5, 6, 7, 8, 123_456_000, time.UTC)

func TestQueuesAreListedNewestFirstAndByTenant(t *testing.T) {
	b := setup(t)
	b.refresh()
	queues, err := b.reader.Queues(t.Context(), b.tenant)
	require.NoError(t, err)
	require.Empty(t, queues)

	for i, name := range []string{"old", "middle", `n"ew/€`} {
		id := b.queue(name)
		b.exec(`update waggle.queue set created_at = $2 where id = $1`, id, past.Add(time.Duration(i)*time.Minute))
	}
	b.exec(`insert into waggle.queue (tenant, name) values ($1, 'old')`, uuid.New())

	b.refresh()
	queues, err = b.reader.Queues(t.Context(), b.tenant)
	require.NoError(t, err)
	require.Len(t, queues, 3)
	require.Equal(t, []string{`n"ew/€`, "middle", "old"}, []string{queues[0].Name, queues[1].Name, queues[2].Name})
	require.Equal(t, "ns", queues[2].Namespace)
	require.Equal(t, "tk", queues[2].Task)
	require.True(t, past.Equal(queues[2].CreatedAt))
	id, ok := b.ids.OpenQueue(queues[2].ID)
	require.True(t, ok)
	require.Positive(t, id)
	require.Zero(t, queues[2].Partitions)
}

func TestMessagesAreJudgedByNamedGroupsElseByQueueMode(t *testing.T) {
	b := setup(t)
	end := func(n int64) *int64 { return &n }
	type cursor struct {
		committed int64
		leased    *int64
		seconds   int
	}
	queueMode := "__QUEUE_MODE__"
	for name, c := range map[string]struct {
		cursors    map[string]cursor
		registered []string
		pending    int64
		processing int64
	}{
		"nobody":                            {pending: 100},
		"queue mode":                        {cursors: map[string]cursor{queueMode: {committed: 39}}, pending: 60},
		"queue mode at the end":             {cursors: map[string]cursor{queueMode: {committed: 99}}},
		"a live lease":                      {cursors: map[string]cursor{queueMode: {39, end(49), 60}}, pending: 50, processing: 10},
		"a dead lease":                      {cursors: map[string]cursor{queueMode: {39, end(49), -1}}, pending: 60},
		"a group outranks queue mode":       {cursors: map[string]cursor{queueMode: {committed: 99}, "a": {committed: 79}}, pending: 20},
		"the slowest group counts":          {cursors: map[string]cursor{"a": {committed: 89}, "b": {committed: 9}}, pending: 90},
		"leases of two groups overlap":      {cursors: map[string]cursor{"a": {9, end(29), 60}, "b": {19, end(39), 60}}, pending: 60, processing: 30},
		"leases of two groups apart":        {cursors: map[string]cursor{"a": {9, end(19), 60}, "b": {49, end(59), 60}}, pending: 70, processing: 20},
		"a registered group without cursor": {registered: []string{"late"}, cursors: map[string]cursor{"a": {committed: 99}}, pending: 100},
	} {
		queue := b.queue(name)
		partition := b.partition(queue, "p")
		b.partition(queue, "empty")
		b.segment(partition, 0, 60, 1000, past)
		b.segment(partition, 60, 40, 500, past.Add(time.Second))
		for group, at := range c.cursors {
			b.cursor(partition, b.group(queue, group, group == queueMode), at.committed, at.leased, at.seconds)
		}
		for _, group := range c.registered {
			b.group(queue, group, true)
		}
		got := b.only(name)
		require.Equal(t, c.pending, got.Pending, "%s: pending", name)
		require.Equal(t, c.processing, got.Processing, "%s: processing", name)
		require.Equal(t, int64(2), got.Partitions, name)
		require.Equal(t, int64(1500), got.RetainedBytes, name)
		require.Equal(t, int64(2), got.Segments, name)
		require.Equal(t, int64(100), got.Messages, name)
	}
}

func TestAPinnedOnlyGroupHasNoSayWhereItHasNoCursor(t *testing.T) {
	b := setup(t)
	queue := b.queue("q")
	first, second := b.partition(queue, "first"), b.partition(queue, "second")
	b.segment(first, 0, 10, 1, past)
	b.segment(second, 0, 10, 1, past)
	b.cursor(first, b.group(queue, "pinned", false), 9, nil, 0)
	b.cursor(second, b.group(queue, "__QUEUE_MODE__", true), 3, nil, 0)
	require.EqualValues(t, 6, b.only("q").Pending)
}

func TestWhatRetentionRemovedIsNeitherRetainedNorPending(t *testing.T) {
	b := setup(t)
	queue := b.queue("q")
	partition := b.partition(queue, "p")
	b.segment(partition, 40, 10, 0, past) // emptied; what was before it is gone
	b.segment(partition, 50, 10, 7, past)
	end := int64(54)
	b.cursor(partition, b.group(queue, "g", true), 44, &end, 60) // the lease begins in what is gone
	got := b.only("q")
	require.EqualValues(t, 10, got.Messages)
	require.EqualValues(t, 1, got.Segments)
	require.EqualValues(t, 7, got.RetainedBytes)
	require.EqualValues(t, 5, got.Processing)
	require.EqualValues(t, 5, got.Pending)

	idle := b.partition(queue, "all gone")
	b.segment(idle, 0, 10, 0, past)
	require.Equal(t, int64(5), b.only("q").Pending)
}

func TestAQueueIsDescribed(t *testing.T) {
	b := setup(t)
	detail, err := b.reader.Queue(t.Context(), b.tenant, "q")
	require.NoError(t, err)
	require.Nil(t, detail)

	queue := b.queue("q")
	b.exec(`update waggle.queue set options = '{"priority": 5, "leaseTime": 7}', version = 3 where id = $1`, queue)
	empty, full := b.partition(queue, "a"), b.partition(queue, "b")
	b.segment(full, 0, 5, 10, past)
	b.segment(full, 5, 5, 10, past.Add(time.Hour))
	b.cursor(full, b.group(queue, "g", true), 3, nil, 0)
	b.letter(queue, full, "g", "t-1", "1", past)
	b.letter(queue, full, "g", "t-2", "2", past)

	detail, err = b.reader.Queue(t.Context(), b.tenant, "q")
	require.NoError(t, err)
	require.JSONEq(t, `{"leaseTime":7,"priority":5}`, string(detail.Options))
	require.EqualValues(t, 5, detail.Priority)
	require.EqualValues(t, 3, detail.OptionsVersion)
	require.Equal(t, Counts{Total: 10, Pending: 6, Completed: 4, DeadLetter: 2}, detail.Totals)
	require.EqualValues(t, 20, detail.RetainedBytes)
	require.EqualValues(t, 2, detail.Segments)
	require.Len(t, detail.Partitions, 2)
	require.Equal(t, b.ids.Partition(empty), detail.Partitions[0].ID)
	require.Zero(t, detail.Partitions[0].Counts)
	require.Zero(t, detail.Partitions[0].Oldest)
	require.Equal(t, detail.Totals, detail.Partitions[1].Counts)
	require.True(t, past.Equal(detail.Partitions[1].Oldest))
	require.True(t, past.Add(time.Hour).Equal(detail.Partitions[1].Newest))

	other, err := b.reader.Queue(t.Context(), uuid.New(), "q")
	require.NoError(t, err)
	require.Nil(t, other, "another tenant's queue")
}

func (b *bundle) letter(queue, partition int64, group, transaction, payload string, at time.Time) int64 {
	return b.insert(`insert into waggle.dead_letter (queue_id, partition_id, group_name, record_offset, message_id,
		transaction_id, payload, error, retry_count, failed_at) values ($1, $2, $3, 0, $4, $5, $6, $7, 3, $8)`,
		queue, partition, group, uuid.New(), transaction, []byte(payload), []byte("card \xff refused"), at)
}

func TestDeadLettersAreListedNewestFirstWithTheirRawPayload(t *testing.T) {
	b := setup(t)
	bills, other := b.queue("bills"), b.queue("other")
	acme, rest := b.partition(bills, "acme"), b.partition(other, "rest")
	b.letter(bills, acme, "ledger", "t-1", `{"n": 1 }`, past)
	b.letter(bills, acme, "__QUEUE_MODE__", "t-2", `null`, past.Add(time.Second))
	b.letter(other, rest, "ledger", "t-3", `3`, past.Add(2*time.Second))
	newest := b.letter(bills, acme, "ledger", "t-4", `"x"`, past.Add(2*time.Second))

	list := func(filter DeadLetterFilter) (transactions []string) {
		if filter.Limit == 0 {
			filter.Limit = 100
		}
		letters, err := b.reader.DeadLetters(t.Context(), b.tenant, filter)
		require.NoError(t, err)
		for _, letter := range letters {
			transactions = append(transactions, letter.TransactionID)
		}
		return transactions
	}
	require.Equal(t, []string{"t-4", "t-3", "t-2", "t-1"}, list(DeadLetterFilter{}))
	require.Equal(t, []string{"t-4", "t-2", "t-1"}, list(DeadLetterFilter{Queue: "bills"}))
	require.Equal(t, []string{"t-4", "t-1"}, list(DeadLetterFilter{Queue: "bills", Group: "ledger"}))
	require.Equal(t, []string{"t-4", "t-3", "t-1"}, list(DeadLetterFilter{Group: "ledger"}))
	require.Equal(t, []string{"t-3", "t-2"}, list(DeadLetterFilter{Limit: 2, Offset: 1}))
	require.Empty(t, list(DeadLetterFilter{Queue: "nothing"}))

	letters, err := b.reader.DeadLetters(t.Context(), b.tenant, DeadLetterFilter{Queue: "bills", Limit: 3})
	require.NoError(t, err)
	letters[0].FailedAt = letters[0].FailedAt.UTC()
	require.Equal(t, DeadLetter{
		ID: newest, TransactionID: "t-4", PartitionID: b.ids.Partition(acme), Queue: "bills", Partition: "acme",
		Group: "ledger", Error: "card \ufffd refused", RetryCount: 3, Payload: []byte(`"x"`), FailedAt: past.Add(2 * time.Second),
	}, letters[0])
	require.Equal(t, `{"n": 1 }`, string(letters[2].Payload))

	letters, err = b.reader.DeadLetters(t.Context(), uuid.New(), DeadLetterFilter{Limit: 10})
	require.NoError(t, err)
	require.Empty(t, letters, "another tenant's letters")
}

func TestAPageOfDeadLettersIsBoundedInBytesButNeverEmpty(t *testing.T) {
	b := setup(t)
	queue := b.queue("q")
	partition := b.partition(queue, "p")
	for i := range 5 {
		b.letter(queue, partition, "g", fmt.Sprint(i), `"`+strings.Repeat("x", 998)+`"`, past)
	}
	for limit, want := range map[int64]int{1: 1, 1000: 1, 1001: 2, 2000: 2, 2001: 3, 100_000: 5} {
		letters, err := b.db.ListDeadLetters(t.Context(), pg.DeadLetterPage{Tenant: b.tenant, Limit: 100, MaxBytes: limit})
		require.NoError(t, err)
		require.Len(t, letters, want, "%d bytes", limit)
	}
}

func TestCountingReadsNoBody(t *testing.T) {
	b := setup(t)
	queue := b.queue("q")
	partition := b.partition(queue, "p")
	for i := range int64(20) {
		b.segment(partition, i*10, 10, 1<<20, past)
	}
	require.NoError(t, pgx.BeginFunc(t.Context(), b.db.Pool(), func(tx pgx.Tx) error {
		blocks := func(expression string) int64 { // of the table that holds the bodies, read by the expression
			var before, after, value int64
			fetched := `select pg_stat_get_xact_blocks_fetched(reltoastrelid) from pg_class where oid = 'waggle.segment'::regclass`
			require.NoError(t, tx.QueryRow(t.Context(), fetched).Scan(&before))
			require.NoError(t, tx.QueryRow(t.Context(), "select "+expression+" from waggle.segment").Scan(&value))
			require.NoError(t, tx.QueryRow(t.Context(), fetched).Scan(&after))
			return after - before
		}
		require.Zero(t, blocks("sum(octet_length(body))"))
		require.Positive(t, blocks("sum(get_byte(body, 1 << 19))"), "the measure sees nothing")
		return nil
	}))
	require.EqualValues(t, 20<<20, b.only("q").RetainedBytes)
}

func TestLagIsMeasuredPerQueueAndGroup(t *testing.T) {
	b := setup(t)
	now := time.Now()
	queue := b.queue("bills")
	first, second := b.partition(queue, "first"), b.partition(queue, "second")
	gone := b.partition(queue, "gone")
	b.segment(gone, 0, 7, 0, now.Add(-3*time.Hour)) // emptied by retention before anybody read it
	b.exec(`insert into waggle.log_start (partition_id, live_offset) values ($1, 7)`, gone)
	b.partition(queue, "empty")
	b.segment(first, 0, 10, 1, now.Add(-time.Hour))
	b.segment(first, 10, 10, 1, now.Add(-time.Minute))
	b.segment(second, 0, 4, 0, now.Add(-2*time.Hour)) // emptied by retention
	b.segment(second, 4, 6, 1, now.Add(-30*time.Minute))
	b.exec(`insert into waggle.log_start (partition_id, live_offset) values ($1, 4)`, second)

	slow := b.group(queue, "slow", true) // no cursor in second: it has all of that still to read
	b.cursor(first, slow, 14, nil, 0)
	done := b.group(queue, "done", true)
	b.cursor(first, done, 19, nil, 0)
	b.cursor(second, done, 9, nil, 0)
	pinned := b.group(queue, "pinned", false)
	b.cursor(first, pinned, -1, nil, 0)

	lags, groups, err := b.db.MeasureLag(t.Context(), 10)
	require.NoError(t, err)
	require.Equal(t, 3, groups)
	records := map[string]int64{}
	seconds := map[string]float64{}
	for _, lag := range lags {
		require.Equal(t, b.tenant, lag.Tenant)
		require.Equal(t, "bills", lag.Queue)
		records[lag.Group], seconds[lag.Group] = lag.Records, lag.Seconds
	}
	require.Equal(t, map[string]int64{"slow": 5 + 6, "done": 0, "pinned": 20}, records)
	require.InDelta(t, 1800, seconds["slow"], 30)
	require.InDelta(t, 3600, seconds["pinned"], 30)
	require.Zero(t, seconds["done"])

	lags, groups, err = b.db.MeasureLag(t.Context(), 1)
	require.NoError(t, err)
	require.Equal(t, 3, groups)
	require.Len(t, lags, 1)
	require.Equal(t, "pinned", lags[0].Group, "the one furthest behind is kept")
}

func TestAnUnreachableDatabaseIsToldFromOtherFailures(t *testing.T) {
	t.Parallel()
	db, err := pg.Open(t.Context(), pg.Config{URL: "postgres://nobody@127.0.0.1:1/none", MaxConns: 4})
	require.NoError(t, err)
	defer db.Close()
	reader := NewReader(db, nil, nil)
	_, err = reader.Queues(t.Context(), uuid.New())
	var unavailable interface{ Unavailable() bool }
	require.True(t, errors.As(err, &unavailable) && unavailable.Unavailable(), "%v", err)

	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err = reader.Queues(ctx, uuid.New())
	require.ErrorIs(t, err, context.Canceled)
}

// refresh brings the counters that lists are made of up to date.
func (b *bundle) refresh() {
	b.Helper()
	_, err := b.db.Statistics().Refresh(b.Context())
	require.NoError(b, err)
}
