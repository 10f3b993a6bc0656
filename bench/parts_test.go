package bench

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

func TestWireReadsWhatServersWrite(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("0123456789", 30_000)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/empty":
			w.WriteHeader(http.StatusNoContent)
		case "/long":
			w.Header().Set("content-length", fmt.Sprint(len(long)))
			_, _ = io.WriteString(w, long)
		case "/chunked":
			for i := 0; i < len(long); i += 70_000 {
				_, _ = io.WriteString(w, long[i:min(i+70_000, len(long))])
				w.(http.Flusher).Flush()
			}
		case "/close":
			w.Header().Set("Connection", "close")
			w.WriteHeader(http.StatusCreated)
			_, _ = io.WriteString(w, "bye")
		}
	}))
	defer server.Close()
	w := newWire(strings.TrimPrefix(server.URL, "http://"), time.Now().Add(time.Minute))
	defer w.close()
	get := func(path string) (int, string) {
		status, body, err := w.do(t.Context(), []byte("GET "+path+" HTTP/1.1\r\nHost: x\r\n\r\n"))
		require.NoError(t, err)
		return status, string(body)
	}
	for range 2 {
		for path, want := range map[string]struct {
			status int
			body   string
		}{"/empty": {204, ""}, "/long": {200, long}, "/chunked": {200, long}, "/close": {201, "bye"}} {
			status, body := get(path)
			require.Equal(t, want.status, status, path)
			require.Equal(t, want.body, body, path)
		}
	}
}

func TestWireFailsOnNonsenseAndEndsWithItsContext(t *testing.T) {
	t.Parallel()
	parked := make(chan struct{}, 1)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/park" {
			parked <- struct{}{}
			<-r.Context().Done()
			return
		}
		conn, _, _ := w.(http.Hijacker).Hijack()
		_, _ = io.WriteString(conn, "SSH-2.0-nothing to see here\r\n\r\n")
		_ = conn.Close()
	}))
	defer server.Close()
	address := strings.TrimPrefix(server.URL, "http://")
	w := newWire(address, time.Now().Add(time.Minute))
	_, _, err := w.do(t.Context(), []byte("GET / HTTP/1.1\r\nHost: x\r\n\r\n"))
	require.ErrorContains(t, err, "no HTTP answer")
	require.Nil(t, w.conn, "a broken connection is given up")

	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		<-parked
		cancel()
	}()
	_, _, err = w.do(ctx, []byte("GET /park HTTP/1.1\r\nHost: x\r\n\r\n"))
	require.Error(t, err)
}

func TestTemplateIsARequestWithDistinctMarks(t *testing.T) {
	t.Parallel()
	const batch, partitions = 3, 5
	tpl := newTemplate("bench-q", "0badcafe", 258, batch, partitions, rand.New(rand.NewPCG(1, 2)))
	seen := map[string]bool{}
	for round := range 4 {
		for partition := range partitions {
			request, first := tpl.fill(partition)
			require.Equal(t, uint32(round*batch), first)
			head, body, ok := bytes.Cut(request, []byte("\r\n\r\n"))
			require.True(t, ok)
			require.Contains(t, string(head), fmt.Sprintf("Content-Length: %d", len(body)))
			var got struct {
				Items []struct {
					Queue, Partition, TransactionID string
					Payload                         json.RawMessage
				}
			}
			require.NoError(t, json.Unmarshal(body, &got))
			require.Len(t, got.Items, batch)
			for i, item := range got.Items {
				require.Equal(t, "bench-q", item.Queue)
				require.Equal(t, partitionName(partition), item.Partition)
				require.Len(t, item.Payload, payloadBytes)
				require.Equal(t, fmt.Sprintf("0badcafe0102%04x%08x", partition, int(first)+i), item.TransactionID)
				require.Contains(t, string(item.Payload), `{"bench":"`+item.TransactionID+`"`)
				require.False(t, seen[item.TransactionID])
				seen[item.TransactionID] = true
			}
		}
	}
}

func TestAuditFindsWhatIsWrong(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		const writers, partitions = 2, 3
		a := newAudit("00000000", writers, partitions)
		var want Tally
		for stream := range writers * partitions {
			writer, partition := stream/partitions, stream%partitions
			pushed := rapid.IntRange(0, 150).Draw(t, "pushed")
			a.acknowledged(writer, partition, 0, pushed)
			want.Pushed += int64(pushed)
			highest, delivered := -1, map[int]bool{}
			var order []int
			if pushed > 0 {
				order = rapid.SliceOf(rapid.IntRange(0, pushed-1)).Draw(t, "order")
			}
			for _, sequence := range order {
				mark := fmt.Appendf(nil, "00000000%04x%04x%08x", writer, partition, sequence)
				require.True(t, a.delivered(mark))
				switch {
				case delivered[sequence]:
					want.Duplicates++
					continue
				case sequence < highest:
					want.Disordered++
				default:
					highest = sequence
				}
				delivered[sequence] = true
				want.Delivered++
			}
			want.Lost += int64(pushed - len(delivered))
		}
		got := a.result()
		require.Equal(t, want, got)
		require.Equal(t, want.Lost+want.Duplicates+want.Disordered == 0, got.clean())
	})
}

func TestAuditRefusesForeignMarks(t *testing.T) {
	t.Parallel()
	a := newAudit("00000000", 1, 1)
	for _, mark := range []string{
		"", "000000000000000000000000000", "11111111" + strings.Repeat("0", 16), "00000000" + "0001" + strings.Repeat("0", 12),
		"00000000" + "0000" + "0001" + "00000000", "00000000" + "0000" + "0000" + "0000000x",
	} {
		require.False(t, a.delivered([]byte(mark)), mark)
	}
	require.True(t, a.delivered([]byte("00000000"+strings.Repeat("0", 16))))
}

func answerOf(spaced bool, ids ...string) []byte {
	colon := `":`
	if spaced {
		colon = `": `
	}
	var messages []string
	for _, id := range ids {
		messages = append(messages, strings.NewReplacer("@", colon).Replace(
			`{"id@"m","transactionId@"`+id+`","data@{"bench@"`+id+`","text@"x"},"partitionId@"pid","leaseId@"lease"}`,
		))
	}
	return []byte(strings.ReplaceAll(`{"success@true,"queue@"q","partitionId@"pid","leaseId@"lease","messages@[`, "@", colon) +
		strings.Join(messages, ",") + `]}`)
}

func TestDelivery(t *testing.T) {
	t.Parallel()
	first, second := strings.Repeat("a", markBytes), strings.Repeat("b", markBytes)
	for _, spaced := range []bool{false, true} {
		var d delivery
		for range 2 {
			require.NoError(t, d.read(200, answerOf(spaced, first, second)))
			require.Len(t, d.marks, 2)
			require.Equal(t, first, string(d.marks[0]))
			require.Equal(t, second, string(d.marks[1]))
			require.Equal(t, "lease", string(d.lease))
			require.Equal(t, "pid", string(d.partitions[0]))
		}
		for last, want := range map[bool]int{false: 2, true: 1} {
			head, body, _ := bytes.Cut(d.appendAck(nil, last), []byte("\r\n\r\n"))
			require.Contains(t, string(head), fmt.Sprintf("Content-Length: %d", len(body)))
			var ack struct {
				Acknowledgments []map[string]string
			}
			require.NoError(t, json.Unmarshal(body, &ack))
			require.Len(t, ack.Acknowledgments, want)
			require.Equal(t, map[string]string{
				"transactionId": second, "partitionId": "pid", "leaseId": "lease", "status": "completed",
			}, ack.Acknowledgments[want-1])
		}
	}
	var d delivery
	second3 := []byte(`,{"id":"3","transactionId":"` + second + `","data":{"bench":"` + second + `"},"partitionId":"other"}]`)
	require.NoError(t, d.read(200, bytes.Replace(answerOf(false, first, second), []byte("]"), second3, 1)))
	require.Equal(t, []string{"pid", "pid", "other"}, []string{string(d.partitions[0]), string(d.partitions[1]), string(d.partitions[2])})
	d.group = "g"
	head, body, _ := bytes.Cut(d.appendAck(nil, true), []byte("\r\n\r\n"))
	require.Contains(t, string(head), fmt.Sprintf("Content-Length: %d", len(body)))
	require.JSONEq(t, `{"consumerGroup":"g","acknowledgments":[
		{"transactionId":"`+second+`","partitionId":"pid","leaseId":"lease","status":"completed"},
		{"transactionId":"`+second+`","partitionId":"other","leaseId":"lease","status":"completed"}]}`, string(body))
	require.NoError(t, d.checkAcked(200, []byte(`[{"success":true},{"success":true}]`), true))
	require.Error(t, d.read(500, nil))
	require.Error(t, d.read(200, []byte(`{"messages":[]}`)))
	wrong := bytes.Replace(answerOf(false, first), []byte(`"bench":"`+first), []byte(`"bench":"`+second), 1)
	require.ErrorContains(t, d.read(200, wrong), "under transaction id")
	require.NoError(t, d.read(200, answerOf(false, first)))
	require.NoError(t, d.checkAcked(200, []byte(`[{"success":true}]`), false))
	require.Error(t, d.checkAcked(200, []byte(`[{"success":false}]`), false))
}

func TestProcessTimes(t *testing.T) {
	t.Parallel()
	got, err := parseProcess([]byte("12 (a) b (c)) S 7 12 12 0 -1 4194304 100 0 0 0 150 50 30 20 20 0 1 0 5 1000\n"))
	require.NoError(t, err)
	require.Equal(t, processStat{parent: 7, own: 2 * time.Second, reaped: 500 * time.Millisecond}, got)
	for _, bad := range []string{"", "12 (a) S 7", "12 (a) S x 12 12 0 -1 4194304 100 0 0 0 150 50 30 20 20"} {
		_, err := parseProcess([]byte(bad))
		require.Error(t, err, bad)
	}
	mine, err := readProcess(os.Getpid())
	require.NoError(t, err)
	require.Equal(t, os.Getppid(), mine.parent)
	require.Equal(t, time.Duration(-1), processesTime(nil))
	require.Equal(t, time.Duration(-1), familyTime(0))
	require.GreaterOrEqual(t, familyTime(os.Getpid()), mine.own)
	require.Equal(t, cost{brokers: -1, postgres: 2, load: 1, writes: -1, wal: 3},
		cost{-1, 5, 2, 4, 4}.since(cost{1, 3, 1, -1, 1}))
}

func fixedSample(rate float64, millis int64) *sample {
	s := &sample{rate: rate, messages: 1000, latencies: newHistogram(), cost: cost{brokers: time.Millisecond, postgres: -1, writes: 10, wal: 5000}}
	_ = s.latencies.RecordValues(millis*1000, 100)
	return s
}

func TestRowsAreMedians(t *testing.T) {
	t.Parallel()
	spec := budget[0]
	row := makeRow(spec, []*sample{fixedSample(10, 1), fixedSample(60, 2), fixedSample(50, 3)},
		[]*sample{fixedSample(200, 1), fixedSample(100, 1), fixedSample(90, 1)})
	require.Equal(t, 50.0, row.Value)
	require.Equal(t, 100.0, *row.Yardstick)
	require.Equal(t, 0.5, *row.Ratio)
	require.Equal(t, spec.budget, *row.Budget)
	require.False(t, *row.Met)
	require.InDelta(t, 2, row.P50, 0.05)
	require.Equal(t, 1.0, *row.BrokerMicros)
	require.Nil(t, row.PostgresMicros)
	require.Equal(t, 0.01, *row.Commits)
	require.Len(t, row.Rounds, 3)

	row = makeRow(spec, []*sample{fixedSample(70, 1), fixedSample(90, 1)}, []*sample{fixedSample(100, 1), fixedSample(100, 1)})
	require.Equal(t, 0.8, *row.Ratio)
	require.True(t, *row.Met)

	lossy := fixedSample(90, 1)
	lossy.tally = &Tally{Lost: 1}
	require.False(t, *makeRow(spec, []*sample{lossy}, []*sample{fixedSample(100, 1)}).Met, "fast and wrong is not met")

	row = makeRow(spec, []*sample{fixedSample(70, 1)}, nil)
	require.Nil(t, row.Ratio)
	require.Nil(t, row.Met)
}

func TestWakeRowHasLimits(t *testing.T) {
	t.Parallel()
	spec := budget[len(budget)-1]
	value := fixedSample(0, 2)
	value.tally = &Tally{}
	row := makeRow(spec, []*sample{value}, []*sample{fixedSample(0, 1)})
	require.Nil(t, row.Yardstick)
	require.Nil(t, row.Ratio)
	require.InDelta(t, 3, *row.Budget, 0.1)
	require.InDelta(t, 8, *row.BudgetP99, 0.1)
	require.True(t, *row.Met)
	value.tally.Lost = 1
	require.False(t, *makeRow(spec, []*sample{value}, []*sample{fixedSample(0, 1)}).Met)
}

func TestBudgetIsConsistent(t *testing.T) {
	t.Parallel()
	for _, spec := range budget {
		require.Contains(t, sideOrder, spec.side)
		require.Contains(t, sideOrder, spec.yardstick)
	}
	for workload, rows := range Workloads {
		specs, err := selectRows(rows)
		require.NoError(t, err, workload)
		require.Len(t, specs, len(rows))
	}
	require.ElementsMatch(t, RowNames(), slices.Concat(Workloads["budget"], Workloads["autopilot"], Workloads["transaction"], Workloads["sparse"]))
	_, err := selectRows([]string{"nonsense"})
	require.Error(t, err)
}
