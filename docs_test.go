package main_test

import (
	"bufio"
	"bytes"
	"context"
	_ "embed"
	"encoding/json"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/alecthomas/kong"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"waggle/cli"
)

// asProgram makes this test binary the waggle program, so that the documents can be run without a second build.
const asProgram = "DOCS_TEST_AS_PROGRAM"

//go:embed version.txt
var buildVersion string

func TestMain(m *testing.M) {
	if os.Getenv(asProgram) != "" {
		os.Exit(cli.Main(buildVersion))
	}
	os.Exit(m.Run())
}

// document is a page that people read.
type document struct {
	path string
	text string
}

func documents(t *testing.T) []document {
	t.Helper()
	paths := []string{"README.md", "CHANGELOG.md"}
	err := fs.WalkDir(os.DirFS("."), "docs", func(name string, _ fs.DirEntry, err error) error {
		if strings.HasSuffix(name, ".md") {
			paths = append(paths, name)
		}
		return err
	})
	require.NoError(t, err)
	pages := make([]document, len(paths))
	for i, name := range paths {
		pages[i] = document{name, readFile(t, name)}
	}
	return pages
}

func readFile(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.FromSlash(name))
	require.NoError(t, err)
	return string(text)
}

var fence = regexp.MustCompile("(?ms)^```(\\w*)\n(.*?)^```$")

// shellBlocks are the fenced blocks of a document that a reader would type.
func (d *document) shellBlocks() []string {
	var blocks []string
	for _, m := range fence.FindAllStringSubmatch(d.text, -1) {
		if m[1] == "sh" {
			blocks = append(blocks, m[2])
		}
	}
	return blocks
}

// prose is the document without its fenced blocks.
func (d *document) prose() string { return fence.ReplaceAllString(d.text, "") }

// shellCommands cuts a block into commands of words. It knows as much of the shell as the documents use.
func shellCommands(block string) [][]string {
	block = strings.ReplaceAll(block, "\\\n", " ")
	var commands [][]string
	for line := range strings.Lines(block) {
		var words []string
		var word strings.Builder
		quote, inWord := rune(0), false
		endWord := func() {
			if inWord {
				words = append(words, word.String())
			}
			word.Reset()
			inWord = false
		}
		endCommand := func() {
			endWord()
			if len(words) > 0 {
				commands = append(commands, words)
			}
			words = nil
		}
	scan:
		for _, c := range strings.TrimSpace(line) {
			switch {
			case quote != 0 && c == quote:
				quote = 0
			case quote != 0:
				word.WriteRune(c)
			case c == '\'' || c == '"':
				quote, inWord = c, true
			case c == '#' && !inWord:
				break scan
			case c == ' ' || c == '\t':
				endWord()
			case c == '|' || c == ';':
				endCommand()
			default:
				word.WriteRune(c)
				inWord = true
			}
		}
		endCommand()
	}
	return commands
}

// withoutRedirections drops `< file` and `> file`.
func withoutRedirections(words []string) []string {
	var kept []string
	for i := 0; i < len(words); i++ {
		if words[i] == "<" || words[i] == ">" {
			i++
			continue
		}
		kept = append(kept, words[i])
	}
	return kept
}

// plainCommands are those of the documents that this test only lets pass; a new one is added here with open eyes.
var plainCommands = []string{".", "awk", "curl", "wc"}

func TestCommandsInTheDocumentsAreWellFormed(t *testing.T) {
	t.Parallel()
	seen := 0
	for _, page := range documents(t) {
		for _, block := range page.shellBlocks() {
			for _, words := range shellCommands(block) {
				seen++
				words = withoutRedirections(words)
				problem := ""
				switch name := words[0]; {
				case name == "bin/waggle":
					problem = parseWaggle(words[1:])
				case name == "make":
					problem = findTarget(t, words[1])
				case name == "go" && words[1] == "test":
					problem = findGoTest(t, words[2:])
				case slices.Contains(plainCommands, name) || strings.Contains(name, "=$("):
				default:
					problem = "a command that this test does not know"
				}
				if problem != "" {
					t.Errorf("%s: %s: %s", page.path, strings.Join(words, " "), problem)
				}
			}
		}
	}
	require.Greater(t, seen, 20)
}

func parseWaggle(args []string) string {
	parser, err := kong.New(&cli.CLI{}, kong.Name("waggle"), kong.Exit(func(int) {}), kong.Writers(io.Discard, io.Discard))
	if err != nil {
		return err.Error()
	}
	if _, err := parser.Parse(args); err != nil {
		return err.Error()
	}
	return ""
}

func findTarget(t *testing.T, target string) string {
	if !strings.Contains(readFile(t, "Makefile"), "\n"+target+":") {
		return "no such target"
	}
	return ""
}

// findGoTest checks the folder, and that each pattern means something there.
func findGoTest(t *testing.T, args []string) string {
	folder := strings.TrimPrefix(args[len(args)-1], "./")
	names := testNames(t, folder)
	if len(names) == 0 {
		return "no tests in " + folder
	}
	for i, arg := range args {
		if arg != "-bench" && (arg != "-run" || args[i+1] == "xxx") {
			continue
		}
		pattern := regexp.MustCompile(args[i+1])
		if !slices.ContainsFunc(names, pattern.MatchString) {
			return "nothing is called " + args[i+1]
		}
	}
	return ""
}

var (
	declaredTest = regexp.MustCompile(`(?m)^func ((?:Test|Fuzz|Benchmark)\w+)\(`)
	namedTest    = regexp.MustCompile("`((?:[a-z]+/)*[a-z]+)\\.((?:Test|Fuzz|Benchmark)\\w+)(?:/([^`]+))?`")
	unplacedTest = regexp.MustCompile("`((?:Test|Fuzz|Benchmark)\\w{4,})`")
)

func testSources(t *testing.T, folder string) string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(filepath.FromSlash(folder), "*_test.go"))
	require.NoError(t, err)
	var all strings.Builder
	for _, file := range files {
		all.WriteString(readFile(t, file))
	}
	return all.String()
}

func testNames(t *testing.T, folder string) []string {
	t.Helper()
	var names []string
	for _, m := range declaredTest.FindAllStringSubmatch(testSources(t, folder), -1) {
		names = append(names, m[1])
	}
	return names
}

func TestTestsNamedInTheDocumentsExist(t *testing.T) {
	t.Parallel()
	seen := 0
	for _, page := range documents(t) {
		for _, m := range namedTest.FindAllStringSubmatch(page.prose(), -1) {
			seen++
			folder, name, sub := m[1], m[2], m[3]
			if !slices.Contains(testNames(t, folder), name) {
				t.Errorf("%s names %s.%s, which does not exist", page.path, folder, name)
			}
			if sub != "" && !strings.Contains(testSources(t, folder), `"`+sub+`"`) {
				t.Errorf("%s names %s.%s/%s, whose last part does not exist", page.path, folder, name, sub)
			}
		}
		for _, m := range unplacedTest.FindAllStringSubmatch(page.prose(), -1) {
			if !slices.Contains(testNames(t, "."), m[1]) {
				t.Errorf("%s names %s without its folder", page.path, m[1])
			}
		}
	}
	require.Greater(t, seen, 30)
}

// Every promise stands beside a test.
func TestEveryGuaranteeNamesATest(t *testing.T) {
	t.Parallel()
	for line := range strings.Lines(readFile(t, "docs/guarantees.md")) {
		if strings.HasPrefix(line, "| **") {
			require.Regexp(t, namedTest, line)
		}
	}
}

var (
	link      = regexp.MustCompile(`\]\(([^)\s]+)\)`)
	heading   = regexp.MustCompile(`(?m)^#+ (.+)$`)
	namedFile = regexp.MustCompile("`([a-z_]+(?:/[a-z0-9_.-]+)+\\.(?:go|sql|md))`")
	unsafe    = regexp.MustCompile(`[^a-z0-9 -]`)
)

// anchors are the headings of a page as the renderers of Markdown name them.
func anchors(text string) []string {
	var names []string
	for _, m := range heading.FindAllStringSubmatch(fence.ReplaceAllString(text, ""), -1) {
		names = append(names, strings.ReplaceAll(unsafe.ReplaceAllString(strings.ToLower(m[1]), ""), " ", "-"))
	}
	return names
}

func TestLinksInTheDocumentsLeadSomewhere(t *testing.T) {
	t.Parallel()
	for _, page := range documents(t) {
		for _, m := range link.FindAllStringSubmatch(page.prose(), -1) {
			if strings.Contains(m[1], "://") {
				continue
			}
			target, anchor, _ := strings.Cut(m[1], "#")
			file := page.path
			if target != "" {
				file = path.Join(path.Dir(page.path), target)
			}
			if _, err := os.Stat(file); err != nil {
				t.Errorf("%s links to %s: %v", page.path, m[1], err)
			} else if anchor != "" && !slices.Contains(anchors(readFile(t, file)), anchor) {
				t.Errorf("%s links to %s, which has no such heading", page.path, m[1])
			}
		}
		for _, m := range namedFile.FindAllStringSubmatch(page.prose(), -1) {
			if _, err := os.Stat(m[1]); err != nil {
				t.Errorf("%s names %s: %v", page.path, m[1], err)
			}
		}
	}
}

// The top of the README is what people see before they scroll.
func TestTheReadmeBeginsWithOneScreen(t *testing.T) {
	t.Parallel()
	top, _, found := strings.Cut(readFile(t, "README.md"), "\n---\n")
	require.True(t, found)
	require.Less(t, strings.Count(top, "\n"), 50)
}

// devCluster is `waggle dev`, run by this test binary.
type devCluster struct {
	// folder is what a reader's clone looks like: bin/waggle, .waggle.
	folder  string
	brokers []string
}

func startDevCluster(t *testing.T) *devCluster {
	t.Helper()
	program, err := os.Executable()
	require.NoError(t, err)
	c := &devCluster{folder: t.TempDir()}
	t.Cleanup(func() {
		if t.Failed() {
			c.showLogs(t)
		}
	})
	require.NoError(t, os.Mkdir(filepath.Join(c.folder, "bin"), 0o755))
	script := fmt.Sprintf("#!/bin/sh\n%s=1 exec %q \"$@\"\n", asProgram, program)
	require.NoError(t, os.WriteFile(filepath.Join(c.folder, "bin", "waggle"), []byte(script), 0o755))

	dev := exec.Command(filepath.Join(c.folder, "bin", "waggle"), "dev", "--port", "0")
	dev.Dir = c.folder
	dev.Env = cleanEnvironment()
	var complaints bytes.Buffer
	dev.Stderr = &complaints
	out, err := dev.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, dev.Start())
	t.Cleanup(func() {
		_ = dev.Process.Signal(syscall.SIGTERM)
		_, _ = io.Copy(io.Discard, out)
		if err := dev.Wait(); err != nil {
			t.Errorf("waggle dev did not end well: %v\n%s", err, complaints.String())
		}
	})
	first, err := bufio.NewReader(out).ReadString('\n')
	require.NoError(t, err, "%s", &complaints)
	require.Contains(t, first, "ready")

	var info struct {
		Brokers []struct {
			HTTP string `json:"http"`
		} `json:"brokers"`
	}
	require.NoError(t, json.Unmarshal([]byte(readFile(t, filepath.Join(c.folder, ".waggle", "cluster.json"))), &info))
	for _, b := range info.Brokers {
		c.brokers = append(c.brokers, b.HTTP)
	}
	require.Len(t, c.brokers, 3)
	return c
}

// showLogs says what the brokers said, above the level of everyday life.
func (c *devCluster) showLogs(t *testing.T) {
	logs, _ := filepath.Glob(filepath.Join(c.folder, ".waggle", "broker-*.log"))
	for _, name := range logs {
		for line := range strings.Lines(readFile(t, name)) {
			if !strings.Contains(line, `"level":"info"`) {
				t.Logf("%s: %s", filepath.Base(name), strings.TrimSpace(line))
			}
		}
	}
}

// cleanEnvironment is ours without what would change how waggle behaves.
func cleanEnvironment() []string {
	return slices.DeleteFunc(os.Environ(), func(entry string) bool {
		name, _, _ := strings.Cut(entry, "=")
		return strings.HasPrefix(name, "WAGGLE_") || strings.HasPrefix(name, "QUEEN_") || strings.HasPrefix(name, "JWT_") || strings.HasPrefix(name, "PG") ||
			slices.Contains([]string{"DATABASE_URL", "PORT", "RETENTION_INTERVAL", "DEFAULT_SUBSCRIPTION_MODE"}, name)
	})
}

// run types a block as a reader would, with this cluster's ports in place of the usual ones.
func (c *devCluster) run(t *testing.T, block string) string {
	t.Helper()
	for i, usual := range []string{"127.0.0.1:6632", "127.0.0.1:6633", "127.0.0.1:6634"} {
		block = strings.ReplaceAll(block, usual, strings.TrimPrefix(c.brokers[i], "http://"))
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	// To curl every answer is a success; here its code goes to standard error as well.
	shell := exec.CommandContext(ctx, "sh", "-euc", `curl() { command curl -w '%{stderr}\nHTTP %{http_code}\n' "$@"; }`+"\n"+block)
	shell.Dir = c.folder
	shell.Env = append(cleanEnvironment(), "WAGGLE_URL="+c.brokers[0])
	out, err := shell.CombinedOutput()
	require.NoError(t, err, "%s\n%s", block, out)
	require.NotRegexp(t, unexpectedStatus, string(out), block)
	return string(out)
}

// unexpectedStatus is what no documented call is answered with; one of them shows a 409.
var unexpectedStatus = regexp.MustCompile(`(?m)^HTTP (000|40[0-8]|4[1-9]\d|5\d\d)$`)

// executed are the documents whose blocks are run, in this order, against one cluster. Commands that take a machine for
// themselves, run other tests, or start one more broker, are only parsed.
var executed = []string{"README.md", "docs/http-api.md", "docs/mesh.md", "docs/leader.md", "docs/upgrades.md", "docs/operations.md"}

var notExecuted = regexp.MustCompile(`(?m)^(make|go test|bin/waggle (serve|bench)) `)

func TestTheDocumentsRunAsWritten(t *testing.T) {
	t.Parallel()
	if _, err := exec.LookPath("curl"); err != nil {
		t.Skip("LEFT OUT: the documents are not run, because there is no curl")
	}
	c := startDevCluster(t)
	outputs := map[string]string{}
	for _, name := range executed {
		page := document{name, readFile(t, name)}
		for _, block := range page.shellBlocks() {
			if !notExecuted.MatchString(block) {
				outputs[name] += c.run(t, block)
			}
		}
	}
	readme := outputs["README.md"]
	for _, expected := range []string{
		`"status":"queued"`, `"data":{"n":1}`, `"configured":true`, `"registered":3`,
		"stored 1000, duplicates 0", "stored 0, duplicates 1000", "\n1000\n", "unknown customer",
	} {
		require.Contains(t, readme, expected)
	}
	api := outputs["docs/http-api.md"]
	for _, expected := range []string{`"renewed":1`, `"leaseReleased":true`, `"ignored":["colour"]`, `"code":"version_conflict"`, "HTTP 409"} {
		require.Contains(t, api, expected)
	}
	requireMetricsAreDocumented(t, c)
}

var (
	metricHelp = regexp.MustCompile(`(?m)^# HELP (waggle_\w+) `)
	metricName = regexp.MustCompile(`\bwaggle_(?:broker|mesh|leader|pg|http|admin|build)_\w+\b`)
)

// The tables of metrics in the operations guide hold what brokers export, no more and no less.
func requireMetricsAreDocumented(t *testing.T, c *devCluster) {
	t.Helper()
	require.EventuallyWithT(t, func(t *assert.CollectT) {
		var exported []string
		for _, broker := range c.brokers {
			response, err := http.Get(broker + "/metrics/prometheus")
			require.NoError(t, err)
			text, err := io.ReadAll(response.Body)
			response.Body.Close()
			require.NoError(t, err)
			for _, m := range metricHelp.FindAllStringSubmatch(string(text), -1) {
				exported = append(exported, m[1])
			}
		}
		guide, err := os.ReadFile("docs/operations.md")
		require.NoError(t, err)
		documented := metricName.FindAllString(string(guide), -1)
		slices.Sort(exported)
		slices.Sort(documented)
		require.Equal(t, slices.Compact(exported), slices.Compact(documented))
	}, 20*time.Second, 200*time.Millisecond)
}
