package broker

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"waggle/pg"
	"waggle/pg/pgtest"
)

func appending(sql string) bool { return strings.Contains(sql, "insert into waggle.segment") }

func claims(sql string) bool {
	return strings.Contains(sql, "-- Flush (c), second half") && !appending(sql)
}

// Whatever becomes of the connection at the commit: queued means stored, once, and nothing is stored twice.
func TestALostCommitIsFoundOut(t *testing.T) {
	t.Parallel()
	for name, moment := range map[string]pgtest.Moment{"before the server": pgtest.BeforeServer, "before the answer": pgtest.BeforeAnswer} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			tb := newBundle(t, 0)
			proxy := pgtest.NewProxy(t, tb.database.URL)
			b := tb.addAt(proxy.URL())
			other := tb.add()
			conn := tb.connect()
			tb.push(b, "q", "p", 0, 5)
			for round := range 4 {
				tb.push(other, "q", "p", 1000+round, 1001+round) // the head moves, so the place must be found out
				fired := proxy.CutOnSync(moment, appending)
				from := 10 * (round + 1)
				var items []PushItem
				for i := from; i < from+5; i++ {
					items = append(items, item("q", "p", i), PushItem{Queue: "q", Partition: "other", Payload: []byte("1")})
				}
				results := b.Push(t.Context(), DefaultTenant, "", items)
				<-fired
				again := b.Push(t.Context(), DefaultTenant, "", items[:1])
				for _, r := range results {
					require.Equal(t, Queued, r.Status, "the outcome can be found out")
				}
				require.Equal(t, Duplicate, again[0].Status)
				require.Equal(t, results[0].MessageID, again[0].MessageID)
				require.Equal(t, int64(5+4+10*4), tb.count(conn, "select sum(count) from waggle.segment")+int64((3-round)*11))
			}
			req := request("q")
			req.Pinned, req.Partition = true, "p"
			answer := tb.pop(b, req)
			require.Len(t, payloads(answer), 5+4+20)
			require.Equal(t, `{"n":14}`, payloads(answer)[10])
		})
	}
}

// A claim whose commit got no answer holds its lease for nobody: it is given back at once.
func TestALostClaimIsGivenBack(t *testing.T) {
	t.Parallel()
	tb := newBundle(t, 0)
	proxy := pgtest.NewProxy(t, tb.database.URL)
	b := tb.addAt(proxy.URL())
	tb.push(b, "q", "p", 0, 3)
	tb.pop(b, PopRequest{Tenant: DefaultTenant, Queue: "q", Group: "g"}) // everything is warm
	fired := proxy.CutOnSync(pgtest.BeforeAnswer, claims)
	req := request("q")
	req.Wait = true
	started := time.Now()
	answer := tb.pop(b, req)
	<-fired
	require.Equal(t, numbers(0, 3), payloads(answer))
	require.Equal(t, 1, answer.Parts[0].Attempt, "it was not a delivery")
	require.Less(t, time.Since(started), 20*time.Second, "long before the lease would expire")
}

// An ack whose commit got no answer is said to have failed, and may be sent again.
func TestALostAckMayBeSentAgain(t *testing.T) {
	t.Parallel()
	tb := newBundle(t, 0)
	proxy := pgtest.NewProxy(t, tb.database.URL)
	b := tb.addAt(proxy.URL())
	tb.push(b, "q", "p", 0, 3)
	answer := tb.pop(b, request("q"))
	fired := proxy.CutOnSync(pgtest.BeforeAnswer, func(sql string) bool { return strings.Contains(sql, "-- Flush (c), first half") })
	acks := acksOf(answer, AckCompleted)
	for _, r := range b.Ack(t.Context(), DefaultTenant, QueueMode, acks) {
		require.Equal(t, AckResult{Error: errAckFlush}, r)
	}
	<-fired
	for i := range acks {
		acks[i].Lease = ""
	}
	for _, r := range b.Ack(t.Context(), DefaultTenant, QueueMode, acks) {
		require.Equal(t, AckResult{Success: true, Noop: true}, r)
	}
	require.Nil(t, tb.pop(b, request("q")))
}

// Without a database nothing is said to be stored, and no pop is told that there is nothing.
func TestWithoutADatabaseNothingIsPromised(t *testing.T) {
	t.Parallel()
	server := pgtest.NewServer(t, nil)
	tb := newBundleOn(t, 1, server)
	b := tb.brokers[0]
	tb.push(b, "q", "p", 0, 1)
	tb.ackAll(b, "", tb.pop(b, request("q")))
	waiting := make(chan error, 1)
	go func() {
		req := request("q")
		req.Wait, req.Timeout = true, 3*time.Second
		_, err := b.Pop(context.Background(), req)
		waiting <- err
	}()
	require.Eventually(t, func() bool { return b.Parked() == 1 }, 30*time.Second, time.Millisecond)
	server.Stop()
	require.Equal(t, Failed, b.Push(t.Context(), DefaultTenant, "", []PushItem{item("q", "p", 1)})[0].Status)
	require.Equal(t, Failed, b.Push(t.Context(), DefaultTenant, "", []PushItem{item("new", "p", 1)})[0].Status)
	started := time.Now()
	_, err := b.Pop(t.Context(), request("q"))
	require.True(t, isUnavailable(err), "%v", err)
	require.Error(t, <-waiting)
	require.Less(t, time.Since(started), 8*time.Second)
	_, err = b.Configure(t.Context(), ConfigureRequest{Tenant: DefaultTenant, Queue: "q"})
	require.Error(t, err)
	server.Start()
	require.Eventually(t, func() bool {
		return b.Push(t.Context(), DefaultTenant, "", []PushItem{item("q", "p", 2)})[0].Status == Queued
	}, 30*time.Second, 20*time.Millisecond)
	require.Equal(t, numbers(2, 3), payloads(tb.pop(b, request("q"))))
}

func isUnavailable(err error) bool {
	u, ok := err.(interface{ Unavailable() bool })
	return ok && u.Unavailable()
}

// A database that was finalized for newer builds takes nothing from this one, and says so.
func TestARaisedFloorFailsTheFlush(t *testing.T) {
	t.Parallel()
	raised := make(chan struct{}, 100)
	tb := newBundle(t, 1, quiet, func(c *Config) { c.FloorRaised = func() { raised <- struct{}{} } })
	b := tb.brokers[0]
	conn := tb.connect()
	tb.push(b, "q", "p", 0, 1)
	answer := tb.pop(b, request("q"))
	_, err := conn.Exec(t.Context(), "update waggle.gate set record_floor = 99")
	require.NoError(t, err)
	require.Equal(t, Failed, b.Push(t.Context(), DefaultTenant, "", []PushItem{item("q", "p", 1)})[0].Status)
	<-raised
	require.Equal(t, errAckFlush, b.Ack(t.Context(), DefaultTenant, QueueMode, acksOf(answer, AckCompleted))[0].Error)
	require.Equal(t, errAckFlush, b.Ack(t.Context(), DefaultTenant, QueueMode, acksOf(answer, AckFailed))[0].Error)
	_, err = b.DeleteQueue(t.Context(), DefaultTenant, "q")
	require.ErrorIs(t, err, pg.ErrFloor)
	require.Equal(t, int64(1), tb.count(conn, "select count(*) from waggle.segment"))
}

// One item that the database refuses does not take the others of its flush with it.
func TestARefusedItemFailsAlone(t *testing.T) {
	t.Parallel()
	tb := newBundle(t, 1, quiet, func(c *Config) { c.Lanes = 1 })
	b := tb.brokers[0]
	conn := tb.connect()
	tb.push(b, "q", "good", 0, 1)
	tb.push(b, "q", "bad", 0, 1)
	bad := tb.count(conn, "select id from waggle.partition where name = 'bad'")
	_, err := conn.Exec(t.Context(), fmt.Sprintf("alter table waggle.segment add constraint refused check (partition_id <> %d or base_offset = 0)", bad))
	require.NoError(t, err)
	var wg sync.WaitGroup
	for i := range 20 {
		wg.Go(func() {
			want, partition := Queued, "good"
			if i%4 == 0 {
				want, partition = Failed, "bad"
			}
			require.Equal(t, want, b.Push(t.Context(), DefaultTenant, "", []PushItem{item("q", partition, 1+i)})[0].Status)
		})
	}
	wg.Wait()
}
