package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"waggle/client"
)

func write(t *testing.T, content string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "in put.jsonl")
	require.NoError(t, os.WriteFile(path, []byte(content), 0o600))
	return path
}

func pushJSON(t *testing.T, o outcome) pushReport {
	t.Helper()
	var r pushReport
	require.NoError(t, json.Unmarshal([]byte(o.stdout), &r), o.stdout)
	return r
}

func TestPushStoresGoodLinesAndRefusesBadOnes(t *testing.T) {
	t.Parallel()
	f := newFake(t)
	path := write(t, "{\"a\": 1}\r\n\nnonsense\n[1,2\n\"x\" \"y\"\n"+`"`+strings.Repeat("x", 100)+`"`+"\nnull\n"+`{"last":true}`)
	got := run(t, "", "push", "q", path, "--url", f.URL, "--max-line", "50", "--partition", "p")
	requireCode(t, ExitFailed, got)
	require.Equal(t, map[string][]string{"p": {`{"a": 1}`, "null", `{"last":true}`}}, f.contents())
	lines := strings.Split(strings.TrimSpace(got.stderr), "\n")
	require.Len(t, lines, 4, got.stderr)
	for i, prefix := range []string{
		"waggle: line 3 refused: not JSON: invalid character 'o'", "waggle: line 4 refused: not JSON",
		"waggle: line 5 refused: not JSON: more than one value", "waggle: line 6 refused: longer than --max-line 50 bytes",
	} {
		require.True(t, strings.HasPrefix(lines[i], prefix), lines[i])
	}
	require.Equal(t, "stored 3, duplicates 0, refused 4, failed 0\nresume with: waggle push q '"+path+"' --partition p --from 3\n", got.stdout)
}

func TestPushAgainStoresNothingTwice(t *testing.T) {
	t.Parallel()
	f := newFake(t)
	var input strings.Builder
	for i := range 2500 {
		fmt.Fprintf(&input, "{\"n\":%d}\n", i)
	}
	path := write(t, input.String())
	first := pushJSON(t, run(t, "", "push", "q", path, "--url", f.URL, "--output", "json", "--batch", "100"))
	require.Equal(t, int64(2500), first.Stored)
	require.Equal(t, int64(2501), first.ResumeFrom)
	require.Equal(t, path, first.Source)

	second := pushJSON(t, run(t, "", "push", "q", path, "--url", f.URL, "--output", "json", "--from", "2001"))
	require.Equal(t, pushReport{Queue: "q", Source: path, Duplicates: 500, ResumeFrom: 2501, Resume: second.Resume}, second)

	other := pushJSON(t, run(t, "", "push", "q", path, "--url", f.URL, "--output", "json", "--source", "other", "--from", "2500"))
	require.Equal(t, int64(1), other.Stored)
	require.Contains(t, other.Resume, "--source other --from 2501")
	require.Equal(t, []string{`{"n":0}`, `{"n":1}`, `{"n":2}`}, f.contents()[""][:3])
}

func TestPushOfStandardInputNamesItsSource(t *testing.T) {
	t.Parallel()
	f := newFake(t)
	first := pushJSON(t, run(t, "1\n2\n", "push", "q", "--url", f.URL, "--output", "json"))
	require.Equal(t, int64(2), first.Stored)
	require.Contains(t, first.Resume, "--source "+first.Source)
	again := pushJSON(t, run(t, "1\n2\n3\n", "push", "q", "-", "--url", f.URL, "--output", "json", "--source", first.Source))
	require.Equal(t, int64(1), again.Stored)
	require.Equal(t, int64(2), again.Duplicates)
	fresh := pushJSON(t, run(t, "1\n2\n", "push", "q", "--url", f.URL, "--output", "json"))
	require.Equal(t, int64(2), fresh.Stored)
}

func TestPushPartitionsByFieldAndKeepsOrder(t *testing.T) {
	t.Parallel()
	f := newFake(t)
	var input strings.Builder
	want := map[string][]string{}
	for i := range 5000 {
		partition := fmt.Sprintf("p%d", i*i%23)
		line := fmt.Sprintf(`{"host":%q,"n":%d}`, partition, i)
		want[partition] = append(want[partition], line)
		fmt.Fprintln(&input, line)
	}
	got := run(t, input.String(), "push", "q", "--partition-by", "host", "--batch", "37", "--concurrency", "8", "--url", f.URL)
	requireCode(t, ExitDone, got)
	require.Equal(t, want, f.contents())
}

func TestFieldOf(t *testing.T) {
	t.Parallel()
	for line, want := range map[string]string{
		`{"f":"a/b"}`: "a/b", `{"f":12.50}`: "12.50", `{"f":true}`: "true", `{"f":"\u00e9"}`: "é",
	} {
		got, err := fieldOf([]byte(line), "f")
		require.NoError(t, err, line)
		require.Equal(t, want, got)
	}
	for _, line := range []string{`{"f":""}`, `{"f":null}`, `{"f":{}}`, `{"f":[]}`, `{}`, `[]`, `1`, `null`, `{"g":{"f":1}}`} {
		_, err := fieldOf([]byte(line), "f")
		require.Error(t, err, line)
	}
}

// flaky fails calls and items at random; what it stored of a failed call it stores.
type flaky struct {
	t      *rapid.T
	stored map[string][]int64
	seen   map[string]bool
}

func (f *flaky) Push(_ context.Context, items []client.Item) ([]client.PushResult, error) {
	results := make([]client.PushResult, len(items))
	groups := map[string]bool{}
	for _, item := range items {
		if _, ok := groups[item.Partition]; !ok {
			groups[item.Partition] = rapid.IntRange(0, 3).Draw(f.t, "fate") > 0
		}
	}
	for i, item := range items {
		switch {
		case !groups[item.Partition]:
			results[i].Status = client.Failed
		case f.seen[item.Partition+item.TransactionID]:
			results[i].Status = client.Duplicate
		default:
			f.seen[item.Partition+item.TransactionID] = true
			var n int64
			_, _ = fmt.Sscanf(string(item.Payload), `{"p":"`+item.Partition+`","n":%d}`, &n)
			f.stored[item.Partition] = append(f.stored[item.Partition], n)
			results[i].Status = client.Queued
		}
	}
	if rapid.IntRange(0, 5).Draw(f.t, "lost") == 0 {
		return nil, errors.New("answer lost")
	}
	return results, nil
}

func TestPipelineKeepsOrderThroughFailures(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		var input strings.Builder
		lines := rapid.IntRange(0, 40).Draw(t, "lines")
		for n := range lines {
			fmt.Fprintf(&input, `{"p":"%d","n":%d}`+"\n", rapid.IntRange(0, 3).Draw(t, "partition"), n)
		}
		f := &flaky{t: t, stored: map[string][]int64{}, seen: map[string]bool{}}
		p := &pipeline{
			client: f, queue: "q", partitionBy: "p", batch: rapid.IntRange(1, 9).Draw(t, "batch"),
			workers: 1, retryFor: -1, refuse: func(int64, string) {}, progress: func(int) {},
		}
		// Runs that give up at the first failure and are resumed where they say.
		for from := int64(1); ; {
			err := p.run(t.Context(), newLineReader(strings.NewReader(input.String()), 1000), from)
			r := p.report()
			p.resumeFrom = 0
			if err == nil {
				require.Equal(t, int64(lines+1), r.ResumeFrom)
				break
			}
			require.LessOrEqual(t, r.ResumeFrom, int64(lines))
			from = r.ResumeFrom
		}
		total := 0
		for partition, numbers := range f.stored {
			require.True(t, slices.IsSorted(numbers), "partition %s: %v", partition, numbers)
			total += len(numbers)
		}
		require.Equal(t, lines, total)
	})
}

func TestPushSplitsABatchThatABrokerRefuses(t *testing.T) {
	t.Parallel()
	f := newFake(t)
	f.answer = func(w http.ResponseWriter, _ *http.Request, body []byte) bool {
		if !strings.Contains(string(body), "poison") {
			return false
		}
		w.WriteHeader(http.StatusBadRequest)
		_, _ = io.WriteString(w, `{"error":"bad body: too deep"}`)
		return true
	}
	got := run(t, "1\n2\n\"poison\"\n4\n5\n", "push", "q", "--url", f.URL)
	requireCode(t, ExitFailed, got)
	require.Equal(t, "waggle: line 3 refused: bad body: too deep\n", got.stderr)
	require.Equal(t, map[string][]string{"": {"1", "2", "4", "5"}}, f.contents())
	require.Contains(t, got.stdout, "stored 4, duplicates 0, refused 1, failed 0")
	require.Contains(t, got.stdout, "--from 3\n")
}

func TestPushStopsWhereItIsNotAllowed(t *testing.T) {
	t.Parallel()
	f := newFake(t)
	f.answer = func(w http.ResponseWriter, _ *http.Request, _ []byte) bool {
		if f.pushes < 1 {
			return false
		}
		w.WriteHeader(http.StatusForbidden)
		_, _ = io.WriteString(w, `{"error":"not yours"}`)
		return true
	}
	got := run(t, "1\n2\n3\n4\n", "push", "q", "--url", f.URL, "--batch", "1")
	requireCode(t, ExitFailed, got)
	require.Contains(t, got.stderr, "403")
	require.Contains(t, got.stderr, "not yours")
	require.Contains(t, got.stdout, "stored 1, ")
	require.Contains(t, got.stdout, "--from 2\n")
	require.Equal(t, map[string][]string{"": {"1"}}, f.contents(), "nothing overtakes a failed line")
}

func TestPushInterruptedSaysHowToResume(t *testing.T) {
	t.Parallel()
	f := newFake(t)
	ctx, cancel := context.WithCancel(t.Context())
	in, feed := io.Pipe()
	f.answer = func(http.ResponseWriter, *http.Request, []byte) bool {
		if f.pushes == 1 {
			cancel()
		}
		return false
	}
	go func() { fmt.Fprint(feed, "1\n2\n") }()
	got := invocation{stdin: in}.run(ctx, "push", "q", "--url", f.URL, "--batch", "1", "--source", "s")
	requireCode(t, ExitFailed, got)
	require.Contains(t, got.stderr, "interrupted")
	require.Regexp(t, `--source s --from [23]\n`, got.stdout) // the answer to the second may win against the interruption
	require.NoError(t, feed.Close())
}

func TestPushUsage(t *testing.T) {
	t.Parallel()
	for _, args := range [][]string{
		{"push"},
		{"push", ""},
		{"push", "a\x01"},
		{"push", "q", "--batch", "0"},
		{"push", "q", "--from", "0"},
		{"push", "q", "--concurrency", "0"},
		{"push", "q", "--max-line", "0"},
		{"push", "q", "--partition", "a", "--partition-by", "b"},
		{"push", "q", "--url", "ftp://x"},
		{"push", "q", "--nonsense"},
	} {
		got := run(t, "1\n", args...)
		requireCode(t, ExitUsage, got)
		require.Equal(t, 1, strings.Count(got.stderr, "\n"), got.stderr)
	}
	got := run(t, "", "push", "q", filepath.Join(t.TempDir(), "missing"))
	requireCode(t, ExitFailed, got)
	got = run(t, "", "push", "q", t.TempDir())
	requireCode(t, ExitFailed, got)
	require.Contains(t, got.stderr, "is a directory")
}

func TestLineReader(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		limit := rapid.IntRange(1, 200_000).Draw(t, "limit")
		lengths := rapid.SliceOfN(rapid.IntRange(0, 300_000), 0, 5).Draw(t, "lengths")
		var input strings.Builder
		for i, n := range lengths {
			input.WriteString(strings.Repeat("x", n))
			if i < len(lengths)-1 || rapid.Bool().Draw(t, "ends") || n == 0 {
				input.WriteByte('\n')
			}
		}
		r := newLineReader(strings.NewReader(input.String()), limit)
		total := 0
		for i, n := range lengths {
			text, number, size, err := r.next()
			require.Equal(t, int64(i+1), number)
			total += size
			var tooLong *lineTooLongError
			if n > limit {
				require.ErrorAs(t, err, &tooLong)
				continue
			}
			require.NoError(t, err)
			require.Len(t, text, n)
		}
		require.Equal(t, input.Len(), total)
		_, _, _, err := r.next()
		require.ErrorIs(t, err, io.EOF)
	})
}
