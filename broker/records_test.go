package broker

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"waggle/broker/segment"
	"waggle/pg/schema"
)

func (tb *testBundle) migration() *schema.Migration {
	tb.t.Helper()
	m, err := schema.OpenMigration(tb.t.Context(), tb.database.URL, schema.Options{Build: "9.0.0"})
	require.NoError(tb.t, err)
	tb.t.Cleanup(func() { m.Close(context.Background()) })
	return m
}

// A queue is moved to the second record format and back while others push to it and pop from it: nothing is lost, doubled or
// out of order. Two leaders rewrite at once, and new ones take over in the middle.
func TestAQueueMovesBetweenRecordFormatsUnderLoad(t *testing.T) {
	t.Parallel()
	const partitions, together = 3, 150
	tb := newBundle(t, 2, quiet)
	conn := tb.connect()
	m := tb.migration()
	q := schema.Queues{Names: []string{"q"}}
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	var pushing, popping sync.WaitGroup
	var pushed [partitions]int
	pad := strings.Repeat("waggle ", 60)
	for p := range partitions {
		name := fmt.Sprint("p", p)
		tb.pushItem(PushItem{Queue: "q", Partition: name, Payload: []byte("-1")})
		tb.ackAll(tb.brokers[0], "g", tb.pop(tb.brokers[0], onPartition(name)))
		pushing.Go(func() {
			for n := 0; ctx.Err() == nil; n += together {
				items := make([]PushItem, together)
				for i := range items {
					items[i] = item("q", name, n+i)
					items[i].TransactionID = fmt.Sprint(name, n+i)
					items[i].Payload = fmt.Appendf(nil, `{"n":%d,"pad":%q}`, n+i, pad)
				}
				for _, r := range tb.brokers[p%2].Push(t.Context(), DefaultTenant, "", items) {
					if r.Status != Queued {
						t.Errorf("push to %s: %+v", name, r)
						return
					}
				}
				pushed[p] = n + together
				time.Sleep(20 * time.Millisecond) // it is rewritten faster than it grows
			}
		})
		popping.Go(func() {
			b := tb.brokers[(p+1)%2]
			for n := 0; ; {
				answer, err := b.Pop(t.Context(), onPartition(name))
				if err != nil {
					t.Errorf("pop from %s: %v", name, err)
					return
				}
				if answer == nil {
					if ctx.Err() == nil {
						continue
					}
					if pushing.Wait(); n == pushed[p] {
						return
					}
					continue
				}
				for _, payload := range payloads(answer) {
					if !strings.HasPrefix(payload, fmt.Sprintf(`{"n":%d,`, n)) {
						t.Errorf("%s: %.20s came where %d was due", name, payload, n)
						return
					}
					n++
				}
				b.Ack(t.Context(), DefaultTenant, "g", acksOf(answer, AckCompleted))
			}
		})
	}
	of := func(format int16) int64 {
		return tb.count(conn, "select count(*) from waggle.segment where format = $1", format)
	}
	floors := func() []int64 {
		return []int64{
			tb.count(conn, "select write_format from waggle.queue where name = 'q'"), tb.count(conn, "select read_floor from waggle.queue where name = 'q'"),
			tb.count(conn, "select record_floor from waggle.gate"),
		}
	}
	for range 2 {
		moved, err := m.RecordsUp(t.Context(), q, 2)
		require.NoError(t, err)
		require.Len(t, moved, 1)
		require.Equal(t, []int64{2, 2, 2}, floors())
		require.Eventually(t, func() bool { return of(segment.Indexed) > 30 }, 30*time.Second, 5*time.Millisecond)
		require.NotZero(t, tb.count(conn, "select count(*) from waggle.segment where format = 2 and get_byte(body, 0) = 3"), "blocks")

		_, err = m.RecordsDown(t.Context(), q, 1)
		require.NoError(t, err)
		require.Equal(t, []int64{1, 2, 2}, floors(), "older builds stay out until all is rewritten")
		left := of(segment.Indexed)
		require.NotZero(t, left)
		// A leader that is cut off in the middle.
		rows, more, err := tb.reign(tb.brokers[0]).Records(segment.Reformat).Run(t.Context())
		require.NoError(t, err)
		require.True(t, more)
		require.Equal(t, left-rows, of(segment.Indexed))
		fenced := tb.reign(tb.brokers[1])
		var rewriting sync.WaitGroup
		for range 2 {
			records := fenced.Records(segment.Reformat)
			rewriting.Go(func() {
				for more := true; more; {
					if _, more, err := records.Run(t.Context()); err != nil || !more {
						if err != nil {
							t.Errorf("rewrite: %v", err)
						}
						return
					}
				}
			})
		}
		rewriting.Wait()
		require.Zero(t, of(segment.Indexed))
		require.Equal(t, []int64{1, 1, 1}, floors())
	}
	stop()
	pushing.Wait()
	popping.Wait()
	require.NotZero(t, pushed[0])
}

func onPartition(name string) PopRequest {
	req := fromStart("q", "g")
	req.Partition, req.Pinned, req.Wait, req.Timeout = name, true, true, time.Second
	return req
}

// Builds that cannot read a format block it while they live, and are refused by the database afterwards.
func TestOlderBuildsBlockARecordFormatAndAreShutOutByIt(t *testing.T) {
	t.Parallel()
	tb := newBundle(t, 1)
	conn := tb.connect()
	tb.knows.Record = 1
	old := tb.add(quiet)
	tb.push(old, "q", "p", 0, 1)
	register := `insert into waggle.broker (start_id, name, version, http, mesh, system_needs, system_knows, record_knows, frame_min, frame_max)
		values (gen_random_uuid(), 'broker-7', '0.1.0', '', '', 1, 99, 1, 1, 2)`
	_, err := conn.Exec(t.Context(), register)
	require.NoError(t, err)
	m := tb.migration()
	var blocked *schema.BlockedError
	_, err = m.RecordsUp(t.Context(), schema.Queues{Names: []string{"q"}}, 2)
	require.ErrorAs(t, err, &blocked)
	require.Regexp(t, `^broker-7 \(version 0.1.0, reads record format 1 and not 2, seen \d+ s ago\)$`, blocked.Line(blocked.Blockers[0]))
	for _, dry := range []bool{true, false} {
		require.ErrorAs(t, m.SetRecordFormat(t.Context(), 2, dry), &blocked)
	}
	tb.push(old, "q", "p", 1, 2)

	_, err = conn.Exec(t.Context(), "delete from waggle.broker")
	require.NoError(t, err)
	require.NoError(t, m.SetRecordFormat(t.Context(), 2, true))
	require.Equal(t, int64(1), tb.count(conn, "select record_floor from waggle.gate"), "a dry run changes nothing")
	require.NoError(t, m.SetRecordFormat(t.Context(), 2, false))
	refused := old.Push(t.Context(), DefaultTenant, "", []PushItem{item("q", "p", 2)})
	require.NotEqual(t, Queued, refused[0].Status)
	tb.push(tb.brokers[0], "new", "p", 0, 1)
	tb.push(tb.brokers[0], "q", "p", 2, 3)
	require.Equal(t, int64(2), tb.count(conn, "select write_format * read_floor / 2 from waggle.queue where name = 'new'"))
	require.Equal(t, int64(1), tb.count(conn, "select write_format from waggle.queue where name = 'q'"))

	var target *schema.TargetError
	_, err = m.RecordsUp(t.Context(), schema.Queues{Names: []string{"q", "nowhere"}}, 2)
	require.ErrorAs(t, err, &target)
	require.ErrorContains(t, err, "there is no queue nowhere")
	_, err = m.RecordsUp(t.Context(), schema.Queues{}, 3)
	require.ErrorContains(t, err, "this build has no record format 3")
	require.NoError(t, m.SetRecordFormat(t.Context(), 1, false))
	require.Equal(t, int64(2), tb.count(conn, "select record_floor from waggle.gate"), "a queue has it still")
	_, err = tb.brokers[0].DeleteQueue(t.Context(), DefaultTenant, "new")
	require.NoError(t, err)
	_, _, err = tb.reign(tb.brokers[0]).Records(segment.Reformat).Run(t.Context())
	require.NoError(t, err)
	require.Equal(t, int64(1), tb.count(conn, "select record_floor from waggle.gate"), "it is gone, and the floor with it")
	tb.push(old, "q", "p", 3, 4)
}

// A segment that nobody can read keeps its queue where it is, and the others move on.
func TestAnUnreadableSegmentKeepsItsQueueOnly(t *testing.T) {
	t.Parallel()
	tb := newBundle(t, 1, quiet)
	conn := tb.connect()
	for _, name := range []string{"a", "b"} {
		tb.push(tb.brokers[0], name, "p", 0, 1)
	}
	m := tb.migration()
	_, err := m.RecordsUp(t.Context(), schema.Queues{}, 2)
	require.NoError(t, err)
	for _, name := range []string{"a", "b"} {
		tb.push(tb.brokers[0], name, "p", 1, 2)
	}
	_, err = conn.Exec(t.Context(), `update waggle.segment s set body = '\x99' where s.format = 2 and s.partition_id =
		(select p.id from waggle.partition p join waggle.queue q on q.id = p.queue_id where q.name = 'a')`)
	require.NoError(t, err)
	_, err = m.RecordsDown(t.Context(), schema.Queues{}, 1)
	require.NoError(t, err)
	records := tb.reign(tb.brokers[0]).Records(segment.Reformat)
	for more := true; more; {
		_, more, err = records.Run(t.Context())
	}
	require.ErrorIs(t, err, segment.ErrUnknownFormat)
	require.Equal(t, int64(2), tb.count(conn, "select read_floor from waggle.queue where name = 'a'"))
	require.Equal(t, int64(1), tb.count(conn, "select read_floor from waggle.queue where name = 'b'"))
	require.Equal(t, int64(2), tb.count(conn, "select record_floor from waggle.gate"))
}
