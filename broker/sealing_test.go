package broker

import (
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"waggle/broker/seal"
	"waggle/broker/segment"
	"waggle/pg"
)

var (
	sealCluster = uuid.MustParse("6f1c1a52-3f5e-4b7a-9d6e-0a1b2c3d4e5f")
	firstKey    = "first " + strings.Repeat("11", seal.KeySize)
	secondKey   = "second " + strings.Repeat("22", seal.KeySize)
)

// withKeys gives a broker keys, the current one first; none takes them all away.
func withKeys(t *testing.T, lines ...string) func(*Config) {
	t.Helper()
	var keys []seal.Key
	if len(lines) > 0 {
		var err error
		keys, err = seal.ParseKeys(strings.Join(lines, "\n"))
		require.NoError(t, err)
	}
	ring, err := seal.NewKeyring(keys, sealCluster)
	require.NoError(t, err)
	return func(c *Config) { c.Keys = ring }
}

func (tb *testBundle) encrypt(b *Broker, queue string, on bool) {
	tb.t.Helper()
	_, err := b.Configure(tb.t.Context(), ConfigureRequest{
		Tenant: DefaultTenant, Queue: queue, Options: map[string]any{"encryptionEnabled": on, "retryLimit": 0},
	})
	require.NoError(tb.t, err)
}

// count runs a statement that answers one number.
func (tb *testBundle) number(statement string, arguments ...any) (n int) {
	tb.t.Helper()
	require.NoError(tb.t, tb.brokers[0].db.Pool().QueryRow(tb.t.Context(), statement, arguments...).Scan(&n))
	return n
}

const (
	clearBodies  = "select count(*) from waggle.segment where get_byte(body, 0) <> 2"
	sealedBodies = "select count(*) from waggle.segment where get_byte(body, 0) = 2"
)

// tablesHolding lists the tables that hold the text anywhere, whatever their columns are.
func (tb *testBundle) tablesHolding(text string) (found []string) {
	tb.t.Helper()
	pool := tb.brokers[0].db.Pool()
	rows, err := pool.Query(tb.t.Context(), "select tablename::text from pg_tables where schemaname = 'waggle'")
	require.NoError(tb.t, err)
	var names []string
	for rows.Next() {
		var name string
		require.NoError(tb.t, rows.Scan(&name))
		names = append(names, name)
	}
	require.NoError(tb.t, rows.Err())
	hex := fmt.Sprintf("%%%x%%", text)
	for _, name := range names {
		// The text of a row shows bytea in hexadecimal.
		if tb.number("select count(*) from waggle."+name+" t where t::text like $1 or t::text like $2", "%"+text+"%", hex) > 0 {
			found = append(found, name)
		}
	}
	return found
}

func TestNoTableEverHoldsWhatAnEncryptedQueueCarries(t *testing.T) {
	t.Parallel()
	tb := newBundle(t, 2, withKeys(t, firstKey))
	a, b := tb.brokers[0], tb.brokers[1]
	marked := func(queue string) {
		items := []PushItem{item(queue, "p", 1), item(queue, "p", 2)}
		items[0].Payload, items[1].Payload = []byte(`"marker-of-a-secret"`), []byte(`"marker-of-a-secret, again"`)
		for _, r := range a.Push(t.Context(), DefaultTenant, "someone", items) {
			require.Equal(t, Queued, r.Status)
		}
	}
	tb.encrypt(a, "open", false)
	marked("open")
	require.Equal(t, []string{"segment"}, tb.tablesHolding("marker-of-a-secret"), "the search finds what is there")
	_, err := a.DeleteQueue(t.Context(), DefaultTenant, "open")
	require.NoError(t, err)
	_, err = a.db.Pool().Exec(t.Context(), "delete from waggle.segment")
	require.NoError(t, err)

	tb.encrypt(a, "q", true)
	marked("q")
	require.Empty(t, tb.tablesHolding("marker-of-a-secret"))
	require.NotEmpty(t, tb.tablesHolding("someone"), "who pushed stays readable")
	for name, broker := range map[string]*Broker{"a": a, "b": b} { // from memory, and from the database
		req := request("q")
		req.Group = name
		req.SubscriptionMode = "all"
		answer := tb.pop(broker, req)
		require.Equal(t, []string{`"marker-of-a-secret"`, `"marker-of-a-secret, again"`}, payloads(answer))
		require.Equal(t, "txn-1", answer.Parts[0].Messages[0].TransactionID)
		require.Equal(t, "someone", answer.Parts[0].Messages[0].ProducerSub)
		acks := acksOf(answer, AckCompleted)
		acks[0].Status, acks[0].Error = AckFailed, "refused"
		require.Equal(t, AckResult{Success: true, DLQ: true, LeaseReleased: true}, b.Ack(t.Context(), DefaultTenant, name, acks[:1])[0])
		require.Equal(t, []string{`"marker-of-a-secret, again"`}, payloads(tb.pop(broker, req)))
	}
	require.Empty(t, tb.tablesHolding("marker-of-a-secret"))
	require.Equal(t, Duplicate, a.Push(t.Context(), DefaultTenant, "", []PushItem{item("q", "p", 1)})[0].Status)

	letters, err := a.db.ListDeadLetters(t.Context(), pg.DeadLetterPage{Tenant: DefaultTenant, Limit: 10, MaxBytes: 1 << 20})
	require.NoError(t, err)
	require.Len(t, letters, 2)
	require.NotEqual(t, letters[0].Payload, letters[1].Payload)
	for _, l := range letters {
		require.True(t, l.Sealed)
		payload, err := segment.OpenPayload(l.Payload, a.config.Keys.DeadLetter(l.QueueID, l.PartitionID, l.Offset, l.Group))
		require.NoError(t, err)
		require.Equal(t, `"marker-of-a-secret"`, string(payload))
	}
}

func TestOldAndNewSegmentsOfAQueueReadFine(t *testing.T) {
	t.Parallel()
	tb := newBundle(t, 2, withKeys(t, firstKey))
	a, b := tb.brokers[0], tb.brokers[1]
	tb.push(a, "q", "p", 0, 2)
	tb.encrypt(b, "q", true)
	tb.push(a, "q", "p", 2, 4)
	rotated := tb.add(withKeys(t, secondKey, firstKey))
	tb.push(rotated, "q", "p", 4, 6)
	tb.encrypt(b, "q", false)
	tb.push(a, "q", "p", 6, 8)
	require.Equal(t, 2, tb.number(sealedBodies))
	require.Equal(t, 2, tb.number(clearBodies))

	tb.ackAll(a, "", tb.pop(rotated, request("q")))
	fresh := tb.add(withKeys(t, firstKey, secondKey))
	req := request("q")
	req.Group, req.SubscriptionMode = "g", "all"
	answer := tb.pop(fresh, req)
	require.Equal(t, numbers(0, 8), payloads(answer))
	// What was encrypted stays so when the group gives it up, although the queue is not any more.
	acks := acksOf(answer, AckCompleted)
	for _, i := range []int{0, 2} {
		acks[i].Status = AckFailed
		fresh.Ack(t.Context(), DefaultTenant, "g", acks[i:i+1])
		if i == 0 {
			acks = acksOf(tb.pop(fresh, req), AckCompleted)
			acks = append(acks[:1:1], acks...)
			require.True(t, fresh.Ack(t.Context(), DefaultTenant, "g", acks[1:2])[0].Success)
		}
	}
	require.Equal(t, 1, tb.number("select count(*) from waggle.dead_letter where record_offset = 0 and not sealed"))
	require.Equal(t, 1, tb.number("select count(*) from waggle.dead_letter where record_offset = 2 and sealed"))
}

// Another broker switches encryption on while this one pushes with what it remembers of the queue: what is pushed after
// the answer is never stored in clear.
func TestAStaleCacheStoresNoClearText(t *testing.T) {
	t.Parallel()
	tb := newBundle(t, 2, withKeys(t, firstKey))
	a, b := tb.brokers[0], tb.brokers[1]
	const pushers, partitions = 8, 3
	for p := range partitions {
		tb.push(b, "q", fmt.Sprint(p), 0, 1)
	}
	var answered atomic.Bool
	var pushed, after atomic.Int64
	stop := make(chan struct{})
	var all sync.WaitGroup
	for k := range pushers {
		all.Go(func() {
			for i := 0; ; i++ {
				select {
				case <-stop:
					return
				default:
				}
				it := item("q", fmt.Sprint(i%partitions), 1000000*k+i+1)
				late := answered.Load()
				it.Payload = fmt.Appendf(nil, `"late: %v"`, late)
				if r := b.Push(t.Context(), DefaultTenant, "", []PushItem{it}); r[0].Status != Queued {
					t.Errorf("push %v", r[0].Status)
					return
				}
				pushed.Add(1)
				if late {
					after.Add(1)
				}
			}
		})
	}
	require.Eventually(t, func() bool { return pushed.Load() > 100 }, 30*time.Second, time.Millisecond)
	tb.encrypt(a, "q", true)
	answered.Store(true)
	require.Eventually(t, func() bool { return after.Load() > 200 }, 30*time.Second, time.Millisecond)
	close(stop)
	all.Wait()
	require.Zero(t, tb.number(clearBodies+" and body like $1", []byte("%late: true%")))
	require.Positive(t, tb.number(clearBodies+" and body like $1", []byte("%late: false%")))
	require.Positive(t, tb.number(sealedBodies))
}

func TestABrokerWithoutAKeyStoresNothing(t *testing.T) {
	t.Parallel()
	core, logs := observer.New(zap.ErrorLevel)
	tb := newBundle(t, 1, withKeys(t, firstKey))
	a := tb.brokers[0]
	without := tb.add(withKeys(t), func(c *Config) { c.Logger = zap.New(core) })
	tb.push(without, "q", "p", 0, 1)
	tb.push(without, "clear", "p", 0, 1)
	tb.encrypt(a, "q", true)
	for i := range 5 {
		results := without.Push(t.Context(), DefaultTenant, "", []PushItem{item("q", "p", 1), item("clear", "p", 2+i), item("q", "r", 3)})
		require.Equal(t, []PushStatus{Failed, Queued, Failed}, []PushStatus{results[0].Status, results[1].Status, results[2].Status})
	}
	require.Equal(t, 1, tb.number("select count(*) from waggle.segment s join waggle.partition p on p.id = s.partition_id "+
		"join waggle.queue q on q.id = p.queue_id where q.name = 'q'"), "only what came before")
	require.Len(t, logs.All(), 1, "once a minute and queue")
	require.Equal(t, CodeNoKey, logs.All()[0].ContextMap()["code"])
	require.Equal(t, "q", logs.All()[0].ContextMap()["queue"])
	require.Equal(t, Queued, a.Push(t.Context(), DefaultTenant, "", []PushItem{item("q", "p", 1)})[0].Status, "nothing is in its way")
	tb.encrypt(a, "q", false)
	require.Equal(t, Queued, without.Push(t.Context(), DefaultTenant, "", []PushItem{item("q", "p", 5)})[0].Status, "it looks again")
}

// A pop that cannot open what it claimed fails with the key's name, and costs its group nothing: no message, no attempt.
func TestAPopWithoutTheKeyFailsAndLosesNothing(t *testing.T) {
	t.Parallel()
	for name, autoAck := range map[string]bool{"lease": false, "autoAck": true} {
		for _, wait := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, waiting %v", name, wait), func(t *testing.T) {
				t.Parallel()
				core, logs := observer.New(zap.ErrorLevel)
				tb := newBundle(t, 1, withKeys(t, secondKey))
				a := tb.brokers[0]
				tb.encrypt(a, "q", true)
				tb.push(a, "q", "p", 0, 3)
				tb.encrypt(a, "q", false) // the log holds sealed segments all the same
				for _, keys := range [][]string{nil, {firstKey}} {
					without := tb.add(withKeys(t, keys...), func(c *Config) { c.Logger = zap.New(core) })
					req := request("q")
					req.AutoAck, req.Wait = autoAck, wait
					for range 4 {
						began := time.Now()
						answer, err := without.Pop(t.Context(), req)
						for answer == nil && err == nil && time.Since(began) < 4*time.Second { // the last lease is being given back
							answer, err = without.Pop(t.Context(), req)
						}
						require.Nil(t, answer)
						var sealed *SealedError
						require.ErrorAs(t, err, &sealed)
						require.Equal(t, `WG0032 queue "q": this broker does not have the encryption key "second"; `+
							`add it to --encryption-keys-file of every broker`, sealed.ClientText())
						require.Less(t, time.Since(began), 4*time.Second)
					}
				}
				require.Len(t, logs.All(), 2, "one a broker")
				require.Equal(t, CodeKeyMissing, logs.All()[0].ContextMap()["code"])
				req := request("q")
				req.AutoAck, req.Wait = autoAck, true
				answer := tb.pop(a, req)
				require.Equal(t, numbers(0, 3), payloads(answer))
				require.Equal(t, 1, answer.Parts[0].Attempt)
				require.Equal(t, autoAck, answer.Lease == uuid.Nil)
				if autoAck {
					req.Wait = false
					require.Nil(t, tb.pop(a, req), "it was acked")
				}
			})
		}
	}
}

func TestWhatOpensDoesNotWaitForWhatDoesNot(t *testing.T) {
	t.Parallel()
	for name, autoAck := range map[string]bool{"lease": false, "autoAck": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			tb := newBundle(t, 1, withKeys(t, firstKey))
			a := tb.brokers[0]
			tb.encrypt(a, "q", true)
			tb.push(a, "q", "closed", 0, 2)
			tb.encrypt(a, "q", false)
			tb.push(a, "q", "open", 5, 7)
			without := tb.add(withKeys(t), quiet)
			req := request("q")
			req.Partitions, req.AutoAck = 10, autoAck
			answer := tb.pop(without, req)
			require.Equal(t, numbers(5, 7), payloads(answer))
			if !autoAck {
				tb.ackAll(without, "", answer)
			}
			req.Wait = true
			_, err := without.Pop(t.Context(), req)
			require.ErrorContains(t, err, CodeKeyMissing)
			require.Equal(t, numbers(0, 2), payloads(tb.pop(a, req)))
		})
	}
}

func TestANackWithoutTheKeyIsRefused(t *testing.T) {
	t.Parallel()
	tb := newBundle(t, 1, withKeys(t, firstKey))
	a := tb.brokers[0]
	tb.encrypt(a, "q", true)
	tb.push(a, "q", "p", 0, 2)
	without := tb.add(withKeys(t), quiet)
	answer := tb.pop(a, request("q"))
	acks := acksOf(answer, AckFailed)
	r := without.Ack(t.Context(), DefaultTenant, QueueMode, acks[:1])
	require.Contains(t, r[0].Error, `WG0032 queue "q": this broker does not have the encryption key "first"`)
	require.Zero(t, tb.number("select count(*) from waggle.dead_letter"))
	require.True(t, a.Ack(t.Context(), DefaultTenant, QueueMode, acks[:1])[0].Success, "the lease still holds")
	require.Equal(t, 1, tb.number("select count(*) from waggle.dead_letter where sealed"))
	require.True(t, without.Ack(t.Context(), DefaultTenant, QueueMode, acksOf(tb.pop(a, request("q")), AckCompleted))[0].Success,
		"completing needs no key")
}

func TestATamperedSegmentIsNotHandedOut(t *testing.T) {
	t.Parallel()
	tb := newBundle(t, 1, withKeys(t, firstKey))
	a := tb.brokers[0]
	tb.encrypt(a, "q", true)
	tb.push(a, "q", "p", 0, 1)
	_, err := a.db.Pool().Exec(t.Context(), "update waggle.segment set body = set_byte(body, length(body) - 1, 255 - get_byte(body, length(body) - 1))")
	require.NoError(t, err)
	b := tb.add(withKeys(t, firstKey), quiet)
	_, err = b.Pop(t.Context(), request("q"))
	require.ErrorContains(t, err, `WG0033 queue "q": stored data does not open with the encryption key "first"`)
}

func TestOptionsRememberThatTheyWereEncrypted(t *testing.T) {
	t.Parallel()
	stored := []byte("{}")
	merge := func(replace bool, sent map[string]any) Options {
		document, ignored, err := mergeOptions(stored, false, replace, sent)
		require.NoError(t, err)
		stored = document
		o, err := parseOptions(stored)
		require.NoError(t, err)
		require.NotContains(t, o.echo(), everEncrypted)
		_, sentIt := sent[everEncrypted]
		require.Equal(t, sentIt, len(ignored) == 1, "it is no option")
		return o
	}
	require.False(t, merge(false, map[string]any{"encryptionEnabled": false, everEncrypted: true}).EverEncrypted)
	require.True(t, merge(false, map[string]any{"encryptionEnabled": true}).EverEncrypted)
	require.True(t, merge(false, map[string]any{"encryptionEnabled": false}).EverEncrypted)
	require.True(t, merge(true, map[string]any{everEncrypted: false}).EverEncrypted)
}

func TestAnAlarmRingsOnceAMinuteAndQueue(t *testing.T) {
	t.Parallel()
	var a alarms
	one, other := alarm{queueKey{name: "q"}, CodeNoKey}, alarm{queueKey{name: "r"}, CodeNoKey}
	now := time.Now()
	require.True(t, a.due(one, now))
	require.False(t, a.due(one, now.Add(alarmEvery-1)))
	require.True(t, a.due(other, now))
	require.True(t, a.due(alarm{one.queue, CodeTampered}, now))
	require.True(t, a.due(one, now.Add(alarmEvery)))
}
