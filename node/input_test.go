package node_test

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"waggle/pg/pgtest"
)

// logLines makes a system log as `journalctl -o json` would write it: always the same one for a seed. Every line is
// unique because of its cursor, as in a real journal.
func logLines(seed uint64, count int) []string {
	random := rand.New(rand.NewPCG(seed, 7))
	units := []string{
		"sshd.service", "cron.service", "kernel", "nginx.service", "postgresql@15-main.service", "systemd", "dbus.service",
		`getty@tty1.service`, `dev-disk-by\x2duuid.swap`, "user@1000.service", "billing/worker-1", "billing/worker-2",
	}
	messages := []string{
		"Accepted publickey for deploy from 10.1.%d.%d port 51234 ssh2", `GET "/api/v1/items/%d?page=%d" 200`,
		"session opened for user root(uid=%d) by (uid=%d)", "Failed password for invalid user naïve%d from 203.0.113.%d",
		"checkpoint complete: wrote %d buffers (%d%%)", "Größe überschritten: %d > %d Bytes", "tab\there, %d, and a \\ path C:\\tmp\\%d",
		"Out of memory: Killed process %d (java) total-vm:%dkB 💥",
	}
	at := time.Date(2031, 4, 5, 6, 7, 8, 0, time.UTC)
	lines := make([]string, count)
	for i := range lines {
		at = at.Add(time.Duration(random.IntN(90_000)) * time.Microsecond)
		// Few units write most of a log.
		unit := units[min(random.IntN(len(units)), random.IntN(len(units)))]
		line, err := json.Marshal(map[string]any{
			"__CURSOR":             fmt.Sprintf("s=%d;i=%x", seed, i),
			"__REALTIME_TIMESTAMP": fmt.Sprint(at.UnixMicro()),
			"_HOSTNAME":            "web-" + fmt.Sprint(seed),
			"_SYSTEMD_UNIT":        unit,
			"_PID":                 1 + random.IntN(32768),
			"PRIORITY":             random.IntN(8),
			"MESSAGE":              fmt.Sprintf(messages[random.IntN(len(messages))], random.IntN(256), random.IntN(256)),
		})
		if err != nil {
			panic(err) // strings and numbers
		}
		lines[i] = string(line)
	}
	return lines
}

// logLine is what the test reads back of a line.
type logLine struct {
	Host string `json:"_HOSTNAME"`
	Unit string `json:"_SYSTEMD_UNIT"`
}

// collector takes the standard output of a pop and says when it has seen enough lines.
type collector struct {
	want  int
	full  chan struct{}
	lines int
	text  bytes.Buffer
}

func (c *collector) Write(p []byte) (int, error) {
	before := c.lines
	c.lines += bytes.Count(p, []byte{'\n'})
	if before < c.want && c.lines >= c.want {
		close(c.full)
	}
	return c.text.Write(p)
}

// A log of 100,000 lines goes in through two brokers by the command line, and comes out of two others for two groups:
// each line once for each group, unchanged, and in order within its partition.
func TestALogPassesThroughTheCluster(t *testing.T) {
	const half = 50_000
	c := startCluster(t, pgtest.New(t).URL, 3)
	files := [][]string{logLines(1, half), logLines(2, half)}
	groups := map[string]*member{"billing": c[1], "audit": c[2]}
	outputs := map[string]*collector{}
	followers := map[string]*process{}
	for group, m := range groups {
		outputs[group] = &collector{want: 2 * half, full: make(chan struct{})}
		followers[group] = startProcess(t, nil, outputs[group], "pop", "journal", "--group", group, "--from", "all",
			"--follow", "--ack", "--batch", "1000", "--url", m.url)
	}

	began := time.Now()
	var paths []string
	var pushers []*process
	var reports []*bytes.Buffer
	for i, lines := range files {
		path := filepath.Join(t.TempDir(), fmt.Sprintf("journal-%d.jsonl", i))
		require.NoError(t, os.WriteFile(path, []byte(strings.Join(lines, "\n")+"\n"), 0o600))
		paths = append(paths, path)
		report := &bytes.Buffer{}
		reports = append(reports, report)
		pushers = append(pushers, startProcess(t, nil, report, "push", "journal", path, "--partition-by", "_SYSTEMD_UNIT",
			"--url", c[i].url, "--output", "json"))
	}
	for i, p := range pushers {
		require.Zero(t, p.exitCode(t, time.Minute), p.log)
		var report struct{ Stored, Duplicates, Refused, Failed, ResumeFrom int }
		require.NoError(t, json.Unmarshal(reports[i].Bytes(), &report))
		require.Equal(t, half, report.Stored)
		require.Zero(t, report.Duplicates+report.Refused+report.Failed)
		require.Equal(t, half+1, report.ResumeFrom)
	}
	t.Logf("pushed in %v", time.Since(began))
	for group, out := range outputs {
		select {
		case <-out.full:
		case <-time.After(time.Minute):
			t.Fatalf("group %s got %d lines only", group, out.lines)
		}
		t.Logf("group %s had all after %v", group, time.Since(began))
		followers[group].signal(syscall.SIGTERM)
		require.Zero(t, followers[group].exitCode(t, patience), "an interrupted follower has done its work")
		require.Empty(t, followers[group].log.String())
		requireSameLog(t, files, out.text.Bytes())
	}

	// A push that is repeated from the middle, through another broker, stores nothing twice.
	report := &bytes.Buffer{}
	again := startProcess(t, nil, report, "push", "journal", paths[0], "--partition-by", "_SYSTEMD_UNIT", "--from", "49001",
		"--url", c[2].url, "--output", "json")
	require.Zero(t, again.exitCode(t, patience), again.log)
	var repeated struct{ Stored, Duplicates int }
	require.NoError(t, json.Unmarshal(report.Bytes(), &repeated))
	require.Equal(t, 1000, repeated.Duplicates)
	require.Zero(t, repeated.Stored)
	for group, m := range groups {
		rest := &bytes.Buffer{}
		require.Zero(t, startProcess(t, nil, rest, "pop", "journal", "--group", group, "--url", m.url).exitCode(t, patience))
		require.Empty(t, rest.String())
	}
}

// requireSameLog compares what was popped with what was pushed, partition by partition and file by file.
func requireSameLog(t *testing.T, files [][]string, output []byte) {
	t.Helper()
	type stream struct{ host, unit string }
	want := map[stream][]string{}
	for _, lines := range files {
		for _, text := range lines {
			var line logLine
			require.NoError(t, json.Unmarshal([]byte(text), &line))
			want[stream{line.Host, line.Unit}] = append(want[stream{line.Host, line.Unit}], text)
		}
	}
	got := map[stream][]string{}
	reader := bufio.NewReaderSize(bytes.NewReader(output), 1<<20)
	for {
		text, err := reader.ReadBytes('\n')
		if err == io.EOF {
			break
		}
		require.NoError(t, err)
		var message struct {
			Partition string
			Data      json.RawMessage
		}
		require.NoError(t, json.Unmarshal(text, &message))
		var line logLine
		require.NoError(t, json.Unmarshal(message.Data, &line))
		require.Equal(t, line.Unit, message.Partition)
		got[stream{line.Host, line.Unit}] = append(got[stream{line.Host, line.Unit}], string(message.Data))
	}
	require.Len(t, got, len(want))
	for s, lines := range want {
		require.Len(t, got[s], len(lines), "%v", s)
		for i, line := range lines {
			if line != got[s][i] {
				t.Fatalf("line %d of %v: want %s\ngot %s", i, s, line, got[s][i])
			}
		}
	}
}
