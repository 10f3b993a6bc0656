package cli

import (
	"context"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func deadURL(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer l.Close()
	return "http://" + l.Addr().String()
}

// answering is a fake that gives one answer to everything.
func answering(t *testing.T, status int, body string) *fake {
	t.Helper()
	f := newFake(t)
	f.answer = func(w http.ResponseWriter, _ *http.Request, _ []byte) bool {
		w.WriteHeader(status)
		_, _ = io.WriteString(w, body)
		return true
	}
	return f
}

func TestVersionAndHelp(t *testing.T) {
	t.Parallel()
	got := run(t, "", "version")
	require.Equal(t, outcome{stdout: "waggle 9.8.7\n"}, got)
	got = run(t, "", "version", "--output", "json")
	require.Contains(t, got.stdout, `"version": "9.8.7"`)

	got = run(t, "", "push", "--help")
	requireCode(t, ExitDone, got)
	require.Contains(t, got.stdout, "$WAGGLE_URL")
	require.Empty(t, got.stderr)
	requireCode(t, ExitUsage, run(t, "", "nonsense"))
	requireCode(t, ExitUsage, run(t, ""))
}

func TestUnreachableIsOneLineNamingTheURLs(t *testing.T) {
	t.Parallel()
	a, b := deadURL(t), deadURL(t)
	for _, args := range [][]string{{"push", "q"}, {"pop", "q"}, {"queue", "list"}, {"dlq", "list"}} {
		got := run(t, "1\n", append(args, "--url", a+","+b)...)
		requireCode(t, ExitFailed, got)
		require.Contains(t, got.stderr, a)
		require.Contains(t, got.stderr, b)
		require.Equal(t, 1, strings.Count(got.stderr, "\n"), got.stderr)
	}
}

func TestEnvironment(t *testing.T) {
	t.Parallel()
	f := newFake(t)
	token := filepath.Join(t.TempDir(), "token")
	require.NoError(t, os.WriteFile(token, []byte("secret\n"), 0o600))
	var authorization string
	f.answer = func(_ http.ResponseWriter, r *http.Request, _ []byte) bool {
		authorization = r.Header.Get("Authorization")
		return false
	}
	with := func(environ ...string) outcome {
		return invocation{stdin: strings.NewReader("1\n2\n"), environ: environ}.run(t.Context(), "push", "q")
	}
	got := with("WAGGLE_URL="+deadURL(t)+","+f.URL, "WAGGLE_TOKEN_FILE="+token, "WAGGLE_BATCH=1", "WAGGLE_PORT=tcp://10.0.0.1:80", "WAGGLE_PARTITION=")
	requireCode(t, ExitDone, got)
	require.Equal(t, 2, f.pushes, "batch comes from the environment")
	require.Equal(t, "Bearer secret", authorization)

	got = with("WAGGLE_TOKEN_FILE="+token+"-missing", "WAGGLE_URL="+f.URL)
	requireCode(t, ExitUsage, got)
	require.Contains(t, got.stderr, "--token: read file that WAGGLE_TOKEN_FILE names")
	got = with("WAGGLE_TOKEN=direct", "WAGGLE_TOKEN_FILE="+token, "WAGGLE_FROM=nonsense", "WAGGLE_URL="+f.URL)
	requireCode(t, ExitDone, got)
	require.Equal(t, "Bearer direct", authorization)

	got = with("WAGGLE_BATCH=many", "WAGGLE_RETRY_FOR=long")
	requireCode(t, ExitUsage, got)
	require.Contains(t, got.stderr, `WAGGLE_BATCH="many": --batch: expected`)
	require.Contains(t, got.stderr, `WAGGLE_RETRY_FOR="long": --retry-for: expected`)

	got = invocation{stdin: strings.NewReader(""), environ: []string{"WAGGLE_BATCH=many"}}.run(t.Context(), "push", "q", "--batch", "3", "--url", f.URL)
	requireCode(t, ExitDone, got)
}

func TestUnknownVariables(t *testing.T) {
	t.Parallel()
	got, err := UnknownVariables([]string{
		"WAGGLE_URLS=x", "WAGGLE_URL=x", "PATH=/bin", "WAGGLE_PORT=tcp://1.2.3.4:5", "WAGGLE_PORT_6632_TCP=tcp://1.2.3.4:5",
		"WAGGLE_PORT_6632_TCP_ADDR=1.2.3.4", "WAGGLE_SERVICE_HOST=1.2.3.4", "WAGGLE_SERVICE_PORT_HTTP=80", "WAGGLE_PARTITON=p", "WAGGLE_TOKEN_FILE=t",
	})
	require.NoError(t, err)
	require.Equal(t, []UnknownVariable{{"WAGGLE_PARTITON", "WAGGLE_PARTITION"}, {"WAGGLE_URLS", "WAGGLE_URL"}}, got)
}

func TestPop(t *testing.T) {
	t.Parallel()
	t.Run("writes one compact line a message and leaves it leased", func(t *testing.T) {
		t.Parallel()
		f := newFake(t)
		requireCode(t, ExitDone, run(t, "{\"a\":  \"<1>\"}\n2.50\n", "push", "q", "--partition", "p", "--source", "s", "--url", f.URL))
		got := run(t, "", "pop", "q", "--url", f.URL)
		requireCode(t, ExitDone, got)
		lines := strings.Split(got.stdout, "\n")
		require.Len(t, lines, 3)
		require.Equal(t, `{"queue":"q","partition":"p","partitionId":"pid-p","id":"m-0","transactionId":"`+lineID("s", 1)+
			`","group":"__QUEUE_MODE__","leaseId":"lease","deliveryAttempt":1,"createdAt":"2031-04-05T06:07:08.100000Z","data":{"a":"<1>"}}`, lines[0])
		require.True(t, strings.HasSuffix(lines[1], `"data":2.50}`), lines[1])
		require.Zero(t, f.acked())
		require.Equal(t, []string{"/api/v1/pop/queue/q?batch=100&partitions=-1"}, f.pops)

		ack := run(t, got.stdout, "ack", "--url", f.URL)
		requireCode(t, ExitDone, ack)
		require.Equal(t, "acknowledged 2, refused 0, dead-lettered 0\n", ack.stdout)
		require.Equal(t, 2, f.acked())
		got = run(t, "", "pop", "q", "--url", f.URL)
		require.Equal(t, outcome{}, got, "nothing to take is success")
	})
	t.Run("acknowledges what it has written", func(t *testing.T) {
		t.Parallel()
		f := newFake(t)
		run(t, "1\n2\n3\n4\n5\n", "push", "q", "--url", f.URL)
		got := run(t, "", "pop", "q", "--group", "g", "--ack", "--limit", "4", "--batch", "3", "--from", "all", "--data-only", "--url", f.URL)
		requireCode(t, ExitDone, got)
		require.Equal(t, "1\n2\n3\n4\n", got.stdout)
		require.Equal(t, 4, f.acked())
		require.Equal(t, "g", f.acks[0]["consumerGroup"])
		require.Contains(t, f.pops[1], "batch=1&consumerGroup=g&partitions=-1&subscriptionMode=all")
	})
	t.Run("follows until it is interrupted, through an outage", func(t *testing.T) {
		t.Parallel()
		f := newFake(t)
		run(t, "1\n2\n", "push", "q", "--url", f.URL)
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		pops := 0
		f.answer = func(w http.ResponseWriter, r *http.Request, _ []byte) bool {
			if !strings.Contains(r.URL.Path, "/pop/") {
				return false
			}
			pops++
			switch {
			case pops <= 3:
				w.WriteHeader(http.StatusInternalServerError)
				return true
			case pops > 5:
				cancel()
			}
			return false
		}
		got := invocation{}.run(ctx, "pop", "q", "--follow", "--batch", "1", "--ack", "--data-only", "--url", f.URL)
		requireCode(t, ExitDone, got)
		require.Equal(t, "1\n2\n", got.stdout)
		require.Contains(t, got.stderr, "trying on")
		require.Contains(t, f.popped()[0], "timeout=30000&wait=true")
		require.Equal(t, 2, f.acked())
	})
	t.Run("fails when an ack is refused", func(t *testing.T) {
		t.Parallel()
		f := newFake(t)
		run(t, "1\n", "push", "q", "--url", f.URL)
		f.answer = func(w http.ResponseWriter, r *http.Request, _ []byte) bool {
			if !strings.Contains(r.URL.Path, "/ack") {
				return false
			}
			_, _ = io.WriteString(w, `[{"success":false,"error":"invalid or expired lease"}]`)
			return true
		}
		got := run(t, "", "pop", "q", "--ack", "--data-only", "--url", f.URL)
		requireCode(t, ExitFailed, got)
		require.Equal(t, "1\n", got.stdout)
		require.Contains(t, got.stderr, "invalid or expired lease")
		require.Contains(t, got.stderr, "they come again")
	})
	t.Run("refuses flags that contradict each other", func(t *testing.T) {
		t.Parallel()
		for _, args := range [][]string{
			{"--ack", "--auto-ack"}, {"--from", "all"}, {"--group", "g", "--from", "yesterday"}, {"--batch", "0"}, {"--limit", "-1"},
		} {
			requireCode(t, ExitUsage, run(t, "", append([]string{"pop", "q"}, args...)...))
		}
	})
	t.Run("passes times, leases and auto ack on", func(t *testing.T) {
		t.Parallel()
		f := newFake(t)
		got := run(t, "", "pop", "q", "--partition", "a/b", "--group", "g", "--from", "2031-04-05T06:07:08Z", "--lease", "9s",
			"--no-ack", "--auto-ack", "--partitions", "3", "--wait", "--timeout", "1s", "--url", f.URL)
		requireCode(t, ExitDone, got)
		require.Equal(t, []string{"/api/v1/pop/queue/q/partition/a%2Fb?autoAck=true&batch=100&consumerGroup=g&leaseSeconds=9" +
			"&partitions=3&subscriptionFrom=2031-04-05T06%3A07%3A08Z&timeout=1000&wait=true"}, f.pops)
	})
}

func TestAck(t *testing.T) {
	t.Parallel()
	f := newFake(t)
	run(t, "1\n2\n", "push", "q", "--partition", "p", "--source", "s", "--url", f.URL)
	got := run(t, "", "ack", lineID("s", 1), "unknown", "--partition-id", "pid-p", "--lease", "l", "--group", "g",
		"--status", "failed", "--error", "why", "--url", f.URL, "--output", "json")
	requireCode(t, ExitFailed, got)
	require.JSONEq(t, `{"acknowledged":1,"refused":1,"deadLettered":0}`, got.stdout)
	require.Contains(t, got.stderr, "unknown was not acknowledged: unresolvable")
	ack := f.acks[0]["acknowledgments"].([]any)[0].(map[string]any)
	require.Equal(t, map[string]any{"transactionId": lineID("s", 1), "partitionId": "pid-p", "leaseId": "l", "status": "failed", "error": "why"}, ack)

	lines := `{"group":"a","partitionId":"pid-p","transactionId":"1"}` + "\n" + `{"group":"b","partitionId":"pid-p","transactionId":"2"}`
	requireCode(t, ExitFailed, run(t, lines, "ack", "--url", f.URL))
	require.Equal(t, "a", f.acks[1]["consumerGroup"])
	require.Equal(t, "b", f.acks[2]["consumerGroup"])

	requireCode(t, ExitUsage, run(t, "", "ack", "x", "--url", f.URL))
	requireCode(t, ExitUsage, run(t, "", "ack", "x", "--partition-id", "p", "--status", "odd"))
	requireCode(t, ExitFailed, run(t, "{}", "ack", "--url", f.URL))
	requireCode(t, ExitFailed, run(t, "{", "ack", "--url", f.URL))
	requireCode(t, ExitDone, run(t, "", "ack", "--url", f.URL))
}

func TestQueueCommands(t *testing.T) {
	t.Parallel()
	list := answering(t, 200, `{"queues":[{"id":"i","name":"bills","namespace":"n","partitions":3,"messages":{"total":120,"pending":20,"processing":10}}]}`)
	got := run(t, "", "queue", "list", "--url", list.URL)
	requireCode(t, ExitDone, got)
	require.Equal(t, []string{"bills", "n", "-", "3", "120", "20", "10", "-"}, strings.Fields(strings.Split(got.stdout, "\n")[1]))
	got = run(t, "", "queue", "list", "--url", list.URL, "--output", "json")
	require.Contains(t, got.stdout, `"pending": 20`)
	got = run(t, "", "queue", "list", "--url", answering(t, 200, `{"queues":[]}`).URL, "--output", "json")
	require.JSONEq(t, `[]`, got.stdout)

	describe := answering(t, 200, `{"id":"i","name":"bills","options":{"leaseTime":60},"partitions":[{"id":"p","name":"acme",
		"stats":{"total":3,"pending":2},"newestMessage":"2031-04-05T06:07:08.123Z"}],"totals":{"total":3,"pending":2}}`)
	got = run(t, "", "queue", "describe", "bills", "--url", describe.URL)
	requireCode(t, ExitDone, got)
	require.Contains(t, got.stdout, "leaseTime  60")
	require.Regexp(t, `acme +3 +2 +0 +0 +0 +2031-04-05T06:07:08Z`, got.stdout)
	got = run(t, "", "queue", "describe", "x", "--url", answering(t, 404, `{"error":"Queue not found"}`).URL)
	requireCode(t, ExitFailed, got)
	require.Contains(t, got.stderr, "Queue not found")

	remove := answering(t, 200, `{"deleted":false,"existed":false}`)
	got = run(t, "", "queue", "delete", "x", "--url", remove.URL)
	requireCode(t, ExitDone, got)
	require.Equal(t, "there was no queue x\n", got.stdout)
}

func TestQueueConfigure(t *testing.T) {
	t.Parallel()
	f := answering(t, 200, `{"configured":true,"queue":"q","options":{"leaseTime":30},"optionsVersion":4,"ignored":["odd"]}`)
	got := run(t, "", "queue", "configure", "q", "leaseTime=30", "retentionSinkHold=a-b", "deadLetterQueue=false", "ttl=", "odd=1",
		"--namespace", "n", "--replace", "--if-version", "3", "--url", f.URL)
	requireCode(t, ExitDone, got)
	require.Contains(t, got.stderr, "ignored: odd")
	require.Regexp(t, `leaseTime +30`, got.stdout)
	var body map[string]any
	require.NoError(t, json.Unmarshal([]byte(f.bodies[0]), &body))
	require.Equal(t, map[string]any{
		"queue": "q", "mode": "replace", "namespace": "n", "ifVersion": 3.0,
		"options": map[string]any{"leaseTime": 30.0, "retentionSinkHold": "a-b", "deadLetterQueue": false, "ttl": nil, "odd": 1.0},
	}, body)
	for _, option := range []string{"leaseTime", "=3"} {
		requireCode(t, ExitUsage, run(t, "", "queue", "configure", "q", option, "--url", f.URL))
	}
	requireCode(t, ExitUsage, run(t, "", "queue", "configure", "q", "a=1", "a=2", "--url", f.URL))
}

func TestDLQList(t *testing.T) {
	t.Parallel()
	f := answering(t, 200, `{"messages":[{"id":"7","transactionId":"b-1","queue":"bills","partition":"acme","consumerGroup":"g",
		"errorMessage":"card refused","retryCount":3,"data":{"n":1},"failedAt":"2031-04-05T06:09:00.000Z"}]}`)
	got := run(t, "", "dlq", "list", "bills", "--group", "g", "--url", f.URL)
	requireCode(t, ExitDone, got)
	require.Contains(t, got.stdout, "card refused")
	got = run(t, "", "dlq", "list", "--url", f.URL, "--output", "json")
	require.Contains(t, got.stdout, `"errorMessage": "card refused"`)
}

func TestHealth(t *testing.T) {
	t.Parallel()
	well, dead := answering(t, 200, `{"status":"healthy","database":"connected","version":"1"}`), deadURL(t)
	requireCode(t, ExitDone, run(t, "", "health", "--url", well.URL))
	got := run(t, "", "health", "--url", well.URL, "--url", dead)
	requireCode(t, ExitFailed, got)
	require.Contains(t, got.stdout, "healthy")
	require.Contains(t, got.stdout, "unreachable")
	require.Empty(t, got.stderr)
}

func TestShellWord(t *testing.T) {
	t.Parallel()
	require.Equal(t, "a/b.c", shellWord("a/b.c"))
	require.Equal(t, "''", shellWord(""))
	require.Equal(t, `'it'\''s $x'`, shellWord("it's $x"))
}

func TestReportIsOneLine(t *testing.T) {
	t.Parallel()
	var out strings.Builder
	require.Equal(t, ExitDatabase, report(&out, Fail(ExitDatabase, io.ErrUnexpectedEOF)))
	require.Equal(t, "waggle: unexpected EOF\n", out.String())
	require.Equal(t, ExitDone, report(&out, nil))
	require.Equal(t, ExitGate, report(&out, Fail(ExitGate, nil)))
	require.Equal(t, "waggle: unexpected EOF\n", out.String())
}
