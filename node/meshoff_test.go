package node_test

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"waggle/client"
	"waggle/pg/pgtest"
)

// Without gossip everything is the same, only later.
func TestWithoutMesh(t *testing.T) {
	server, counted := countingServer(t)
	db := pgtest.New(t, pgtest.On(server))
	c := startCluster(t, db.URL, 3, "WAGGLE_MESH=off")
	t.Run("nothing is lost and all is in order", func(t *testing.T) {
		w := startWorkload(t, "orders", c.urls(), 4, 3)
		pause(time.Second, 1500*time.Millisecond)
		w.finish(t, true)
	})
	t.Run("an ack through another broker lets the rest go", func(t *testing.T) {
		require.Less(t, ackElsewhere(t, c), 3*time.Second) // a lease lasts a minute; a re-check comes within a second, on an idle machine
	})
	t.Run("a configuration binds the very next call on the other brokers", func(t *testing.T) {
		configurationBinds(t, c)
	})
	t.Run("a thousand parked pops are idle and wake in time", func(t *testing.T) {
		parkedPops(t, c, db, counted)
	})
}

// countingServer counts statements if the server's packages allow it; otherwise transactions have to do.
func countingServer(t *testing.T) (server *pgtest.Server, counted bool) {
	t.Helper()
	err := connectTo(t, pgtest.New(t, pgtest.Empty()).URL).QueryRow(t.Context(),
		"select exists (select from pg_available_extensions where name = 'pg_stat_statements')").Scan(&counted)
	require.NoError(t, err)
	settings := map[string]string{}
	if counted {
		settings["shared_preload_libraries"] = "pg_stat_statements"
	} else {
		t.Log("pg_stat_statements is not installed: counting transactions instead of statements")
	}
	return pgtest.NewServer(t, settings), counted
}

func connectTo(t testing.TB, url string) *pgx.Conn {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), url)
	require.NoError(t, err)
	t.Cleanup(func() { _ = conn.Close(context.Background()) })
	return conn
}

func configurationBinds(t *testing.T, c cluster) {
	first, pusher, popper := newClient(t, c[0].url), newClient(t, c[1].url), newClient(t, c[2].url)
	configure := func(option string, value any) {
		_, err := first.Configure(t.Context(), client.Configuration{Queue: "tuned", Options: map[string]any{option: value}})
		require.NoError(t, err)
	}
	push := func(id string) client.PushStatus {
		results, err := pusher.Push(t.Context(), []client.Item{{Queue: "tuned", TransactionID: id}})
		require.NoError(t, err)
		return results[0].Status
	}
	pop := func() (ids []string) {
		got, err := popper.Pop(t.Context(), client.PopRequest{Queue: "tuned", AutoAck: true})
		require.NoError(t, err)
		if got != nil {
			for _, m := range got.Messages {
				ids = append(ids, m.TransactionID)
			}
		}
		return ids
	}
	require.Equal(t, client.Queued, push("warm"))
	require.Equal(t, []string{"warm"}, pop(), "both brokers know the queue by now")

	configure("delayedProcessing", 3600)
	require.Equal(t, client.Queued, push("late"))
	require.Empty(t, pop(), "the delay hides it")
	configure("delayedProcessing", 0)
	require.Equal(t, []string{"late"}, pop())

	configure("encryptionEnabled", true)
	require.Equal(t, client.Failed, push("secret"), "nothing may be stored in clear")
	configure("encryptionEnabled", false)
	require.Equal(t, client.Queued, push("secret"))

	require.Equal(t, client.Duplicate, push("secret"))
	configure("dedupWindowSeconds", 0)
	require.Equal(t, client.Queued, push("secret"))
	require.Equal(t, []string{"secret", "secret"}, pop())

	configure("dedupWindowSeconds", 60)
	require.Equal(t, client.Queued, push("once"))
	require.Equal(t, client.Duplicate, push("once"))
	existed, err := first.DeleteQueue(t.Context(), "tuned")
	require.NoError(t, err)
	require.True(t, existed)
	require.Empty(t, pop())
	require.Equal(t, client.Queued, push("once"), "what it would be a duplicate of is gone")
	require.Equal(t, []string{"once"}, pop())
}

func parkedPops(t *testing.T, c cluster, db *pgtest.Database, counted bool) {
	const queues, popsEach = 200, 5
	ctx, cancel := context.WithCancel(t.Context())
	var parked sync.WaitGroup
	defer parked.Wait()
	defer cancel()
	clients := make([]*client.Client, len(c))
	for i, m := range c {
		clients[i] = newClient(t, m.url)
	}
	name := func(i int) string { return fmt.Sprintf("parked-%03d", i) }
	answers := make([]chan time.Time, queues)
	for i := range queues {
		answers[i] = make(chan time.Time, popsEach)
		for range popsEach {
			parked.Go(func() {
				got, err := clients[i%len(c)].Pop(ctx, client.PopRequest{
					Queue: name(i), Batch: 1, Wait: true, Timeout: time.Minute, AutoAck: true,
				})
				if err == nil && got != nil {
					answers[i] <- time.Now()
				}
			})
		}
	}
	total := func() (pops float64) {
		for _, m := range c {
			pops += m.metric(t, "waggle_broker_parked_pops")
		}
		return pops
	}
	eventually(t, "all pops are parked", func() bool { return total() == queues*popsEach })

	time.Sleep(3 * time.Second)     // the pauses between re-checks grow to their full length
	const window = 10 * time.Second // one statistics pass falls into it
	statements := statementCounter(t, db, counted)
	before, connections := statements()
	time.Sleep(window)
	after, _ := statements()
	rate := float64(after-before) / window.Seconds() / float64(len(c))
	t.Logf("%.1f statements per second and broker with %d parked pops, %d connections", rate, queues*popsEach, connections)
	require.LessOrEqual(t, rate, 5.0, "statements per second and broker while idle")
	require.Less(t, connections, 60, "parked pops hold no connection")
	require.EqualValues(t, queues*popsEach, total(), "nobody left meanwhile")

	took := make([]time.Duration, queues)
	for i := range queues {
		began := time.Now()
		results, err := clients[(i+1)%len(c)].Push(t.Context(), []client.Item{{Queue: name(i), Partition: "p"}})
		require.NoError(t, err)
		require.Equal(t, client.Queued, results[0].Status)
		parked.Go(func() {
			select {
			case at := <-answers[i]:
				took[i] = at.Sub(began)
			case <-ctx.Done():
			}
		})
		pause(0, 20*time.Millisecond)
	}
	eventually(t, "each push has been answered", func() bool { return total() == queues*(popsEach-1) })
	cancel()
	parked.Wait()
	slices.Sort(took)
	require.NotZero(t, took[0], "each push reached exactly one pop")
	p99 := took[queues*99/100]
	t.Logf("from push to answer through another broker: median %v, p99 %v, worst %v", took[queues/2], p99, took[queues-1])
	require.LessOrEqual(t, p99, 2*time.Second) // 0.8 s on an idle machine; without re-checks it would be the whole timeout
}

// statementCounter reads how many statements the brokers have sent, transaction control and settings left out, and how
// many connections they hold.
func statementCounter(t testing.TB, db *pgtest.Database, counted bool) func() (statements, connections int) {
	t.Helper()
	conn := connectTo(t, db.SuperURL)
	query := "select xact_commit + xact_rollback from pg_stat_database where datname = current_database()"
	if counted {
		_, err := conn.Exec(t.Context(), "create extension if not exists pg_stat_statements")
		require.NoError(t, err)
		query = `select sum(calls)::int from pg_stat_statements s join pg_roles r on r.oid = s.userid
			where rolname = '` + pgtest.Role + `' and query !~* '^\s*(begin|commit|rollback|start|set)\M'`
	}
	return func() (statements, connections int) {
		require.NoError(t, conn.QueryRow(t.Context(), query).Scan(&statements))
		require.NoError(t, conn.QueryRow(t.Context(),
			"select count(*) from pg_stat_activity where usename = $1", pgtest.Role).Scan(&connections))
		return statements, connections
	}
}
