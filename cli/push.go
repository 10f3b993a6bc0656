package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/schollz/progressbar/v3"
	"golang.org/x/term"
)

// PushCmd stores JSON lines.
type PushCmd struct {
	Connection
	Output
	Queue       string        `arg:"" help:"Queue name; a missing queue is created."`
	File        string        `arg:"" optional:"" default:"-" help:"File of JSON lines; - is standard input."`
	Partition   string        `xor:"partition" help:"Partition for all lines."`
	PartitionBy string        `xor:"partition" help:"Field of each line, at its top level, that names its partition."`
	Batch       int           `default:"500" help:"At most so many lines a call."`
	From        int64         `default:"1" env:"-" help:"First line to store; how to resume."`
	Source      string        `help:"Name that the lines' transaction ids are made of, instead of the file's absolute path."`
	Concurrency int           `default:"4" help:"Calls in flight; lines of one partition always stay in order."`
	MaxLine     int           `default:"1048576" help:"Longest line in bytes; longer ones are refused."`
	RetryFor    time.Duration `default:"30s" help:"How long to try on when no broker stores a batch, once some line was stored."`
}

// Help explains what the flags cannot.
func (c *PushCmd) Help() string {
	return `Each line is one JSON value and becomes one message; blank lines are skipped. A line that is not JSON, is too
long or lacks the field of --partition-by is refused with its number; the rest is stored, and the exit code is 1.

The transactionId of a line is a hash of the source and the line's number: pushing the same source again within the
queue's de-duplication window stores nothing twice, so a push that was cut off can be resumed with --from, or just
repeated. The source is the file's absolute path. A new file under an old name (a rotated log) is another source: give
it a name of its own with --source. Standard input is a new source each time unless --source names it; the last line
of output says under which name to resume.`
}

// pushReport is the answer of the command.
type pushReport struct {
	Queue      string `json:"queue"`
	Source     string `json:"source"`
	Stored     int64  `json:"stored"`
	Duplicates int64  `json:"duplicates"`
	Refused    int64  `json:"refused"`
	// Failed lines were read but not stored because the push was cut off.
	Failed int64 `json:"failed"`
	// ResumeFrom is the first line that is not stored: the first refused or failed one, else the one after the last.
	ResumeFrom int64  `json:"resumeFrom"`
	Resume     string `json:"resume"`
}

// Run implements the command; it fails when any line was refused or not stored.
func (c *PushCmd) Run(ctx context.Context, s *Session) error {
	if err := c.check(); err != nil {
		return err
	}
	input, size, err := c.open(s.Stdin)
	if err != nil {
		return err
	}
	defer input.Close()
	source, err := c.source()
	if err != nil {
		return err
	}
	cl, err := c.connect()
	if err != nil {
		return err
	}
	defer cl.Close()

	bar := newProgress(s.Stderr, size)
	p := &pipeline{
		client: cl, queue: c.Queue, partition: c.Partition, partitionBy: c.PartitionBy, source: source,
		batch: c.Batch, workers: c.Concurrency, retryFor: c.RetryFor, progress: bar.add,
		refuse: func(line int64, reason string) {
			bar.clear()
			fmt.Fprintf(s.Stderr, "waggle: line %d refused: %s\n", line, reason)
		},
	}
	failure := p.run(ctx, newLineReader(input, c.MaxLine), c.From)
	bar.finish()

	got := p.report()
	got.Resume = c.resume(source, got.ResumeFrom)
	if err := c.print(s.Stdout, got, func(w io.Writer) {
		fmt.Fprintf(w, "stored %d, duplicates %d, refused %d, failed %d\nresume with: %s\n",
			got.Stored, got.Duplicates, got.Refused, got.Failed, got.Resume)
	}); err != nil {
		return err
	}
	if failure != nil {
		return fmt.Errorf("push: %w", failure)
	}
	if got.Refused > 0 {
		return Fail(ExitFailed, nil)
	}
	return nil
}

func (c *PushCmd) check() error {
	if err := checkName("queue", c.Queue); err != nil {
		return err
	}
	if c.Partition != "" {
		if err := checkName("--partition", c.Partition); err != nil {
			return err
		}
	}
	switch {
	case c.Batch < 1:
		return usageError("--batch %d: must be at least 1", c.Batch)
	case c.From < 1:
		return usageError("--from %d: lines are counted from 1", c.From)
	case c.Concurrency < 1 || c.Concurrency > 256:
		return usageError("--concurrency %d: must be between 1 and 256", c.Concurrency)
	case c.MaxLine < 1:
		return usageError("--max-line %d: must be at least 1", c.MaxLine)
	}
	return nil
}

// open returns the input and its size, -1 when that is unknown.
func (c *PushCmd) open(stdin io.Reader) (io.ReadCloser, int64, error) {
	if c.File == "-" {
		return io.NopCloser(stdin), -1, nil
	}
	file, err := os.Open(c.File)
	if err != nil {
		return nil, 0, fmt.Errorf("open input: %w", err)
	}
	info, err := file.Stat()
	if err == nil && info.IsDir() {
		err = errors.New(c.File + " is a directory")
	}
	if err != nil {
		return nil, 0, errors.Join(fmt.Errorf("open input: %w", err), file.Close())
	}
	if !info.Mode().IsRegular() {
		return file, -1, nil
	}
	return file, info.Size(), nil
}

func (c *PushCmd) source() (string, error) {
	switch {
	case c.Source != "":
		return c.Source, nil
	case c.File == "-":
		fresh, err := uuid.NewV7()
		if err != nil {
			return "", fmt.Errorf("name standard input: %w", err)
		}
		return "stdin-" + fresh.String(), nil
	}
	path, err := filepath.Abs(c.File)
	if err != nil {
		return "", fmt.Errorf("find absolute path of input: %w", err)
	}
	return path, nil
}

// resume is the command line that goes on with the first line that is not stored.
func (c *PushCmd) resume(source string, line int64) string {
	words := []string{"waggle", "push", shellWord(c.Queue), shellWord(c.File)}
	if c.Partition != "" {
		words = append(words, "--partition", shellWord(c.Partition))
	}
	if c.PartitionBy != "" {
		words = append(words, "--partition-by", shellWord(c.PartitionBy))
	}
	if c.Source != "" || c.File == "-" {
		words = append(words, "--source", shellWord(source))
	}
	return strings.Join(append(words, "--from", number(line)), " ")
}

// progress is a bar on a terminal and nothing elsewhere.
type progress struct {
	bar *progressbar.ProgressBar
}

func newProgress(w io.Writer, size int64) *progress {
	file, ok := w.(*os.File)
	if !ok || !term.IsTerminal(int(file.Fd())) {
		return &progress{}
	}
	return &progress{bar: progressbar.NewOptions64(
		size,
		progressbar.OptionSetWriter(w),
		progressbar.OptionShowBytes(true),
		progressbar.OptionSetDescription("pushing"),
		progressbar.OptionThrottle(100*time.Millisecond),
		progressbar.OptionClearOnFinish(),
	)}
}

// add counts bytes of input that are done with. A bar that cannot be drawn is no reason to stop.
func (p *progress) add(bytes int) {
	if p.bar != nil {
		_ = p.bar.Add(bytes)
	}
}

// clear makes room for a line of text.
func (p *progress) clear() {
	if p.bar != nil {
		_ = p.bar.Clear()
	}
}

func (p *progress) finish() {
	if p.bar != nil {
		_ = p.bar.Finish()
	}
}
