package cli

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"io"
	"net/http"
	"sync"
	"time"

	"waggle/client"
)

const (
	// maxBatchBytes keeps a call well below the brokers' limit for a body.
	maxBatchBytes = 8 << 20
	scanAhead     = 256
	retryPause    = 250 * time.Millisecond
	maxRetryPause = 2 * time.Second
)

// pusher is what the pipeline needs of a client.
type pusher interface {
	Push(ctx context.Context, items []client.Item) ([]client.PushResult, error)
}

// pipeline reads lines and pushes them. Lines of one partition go to one worker, which has one call in flight and
// repeats what failed before it goes on: that is what keeps them in order. A worker sends as soon as it is free, with
// all that is waiting up to a batch, so that a slow input is not held back.
type pipeline struct {
	client      pusher
	queue       string
	partition   string
	partitionBy string
	source      string
	batch       int
	workers     int
	retryFor    time.Duration
	// refuse is told of each line that is not stored for its own fault; progress of bytes that are done with.
	refuse   func(line int64, reason string)
	progress func(bytes int)

	mu         sync.Mutex // guards what follows, and calls of refuse and progress
	stored     int64
	duplicates int64
	refused    int64
	failed     int64
	resumeFrom int64
	lastLine   int64
}

// entry is one line on its way.
type entry struct {
	line int64
	size int
	item client.Item
}

// run pushes all lines from the given one on. It returns the first failure that is not the fault of a line.
func (p *pipeline) run(ctx context.Context, lines *lineReader, from int64) error {
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	queues := make([]chan entry, p.workers)
	var working sync.WaitGroup
	for i := range queues {
		queues[i] = make(chan entry, p.batch)
		working.Go(func() {
			if err := p.work(ctx, queues[i]); err != nil {
				stop(err)
			}
		})
	}
	err := p.read(ctx, lines, from, queues)
	for _, q := range queues {
		close(q)
	}
	working.Wait()
	if cause := context.Cause(ctx); cause != nil {
		return cause
	}
	return err
}

// scanned is what lineReader.next returned.
type scanned struct {
	text []byte
	line int64
	size int
	err  error
}

// scan reads ahead. It may outlive the run when that is cut off while the input blocks: such a read cannot be
// interrupted, and the process is about to end.
func scan(ctx context.Context, lines *lineReader) <-chan scanned {
	out := make(chan scanned, scanAhead)
	go func() {
		defer close(out)
		for {
			var next scanned
			next.text, next.line, next.size, next.err = lines.next()
			if errors.Is(next.err, io.EOF) {
				return
			}
			select {
			case out <- next:
			case <-ctx.Done():
				return
			}
		}
	}()
	return out
}

// read hands each line to the worker of its partition.
func (p *pipeline) read(ctx context.Context, lines *lineReader, from int64, queues []chan entry) error {
	ahead := scan(ctx, lines)
	for {
		select {
		case <-ctx.Done():
			return nil
		case next, open := <-ahead:
			if !open {
				return nil
			}
			var tooLong *lineTooLongError
			if next.err != nil && !errors.As(next.err, &tooLong) {
				return next.err
			}
			if next.line < from {
				p.done(next.line, next.size)
				continue
			}
			p.dispatch(ctx, next, queues)
		}
	}
}

func (p *pipeline) dispatch(ctx context.Context, next scanned, queues []chan entry) {
	text := bytes.TrimSpace(next.text)
	if next.err == nil && len(text) == 0 {
		p.done(next.line, next.size)
		return
	}
	var item client.Item
	err := next.err
	if err == nil {
		item, err = p.item(text, next.line)
	}
	if err != nil {
		p.refuseLine(next.line, next.size, err.Error())
		return
	}
	select {
	case queues[workerOf(item.Partition, len(queues))] <- entry{next.line, next.size, item}:
	case <-ctx.Done():
		p.fail(next.line)
	}
}

func workerOf(partition string, workers int) int {
	h := fnv.New32a()
	h.Write([]byte(partition))
	return int(h.Sum32() % uint32(workers))
}

func (p *pipeline) item(text []byte, line int64) (client.Item, error) {
	if err := checkJSON(text); err != nil {
		return client.Item{}, err
	}
	item := client.Item{Queue: p.queue, Partition: p.partition, Payload: text, TransactionID: lineID(p.source, line)}
	if p.partitionBy != "" {
		name, err := fieldOf(text, p.partitionBy)
		if err != nil {
			return client.Item{}, err
		}
		item.Partition = name
	}
	return item, nil
}

// work sends what its queue holds until that is closed. After a failure it only notes what was left.
func (p *pipeline) work(ctx context.Context, queue <-chan entry) error {
	var failure error
	for first := range queue {
		batch := p.collect(first, queue)
		if failure == nil {
			failure = p.send(ctx, batch)
			continue
		}
		for _, e := range batch {
			p.fail(e.line)
		}
	}
	return failure
}

func (p *pipeline) collect(first entry, queue <-chan entry) []entry {
	batch := []entry{first}
	size := len(first.item.Payload)
	for len(batch) < p.batch && size < maxBatchBytes {
		select {
		case e, open := <-queue:
			if !open {
				return batch
			}
			batch = append(batch, e)
			size += len(e.item.Payload)
		default:
			return batch
		}
	}
	return batch
}

// send stores a batch, or notes every line of it that it could not store.
func (p *pipeline) send(ctx context.Context, batch []entry) error {
	started, pause := time.Now(), retryPause
	for {
		left, err := p.try(ctx, batch)
		if err == nil && len(left) == 0 {
			return nil
		}
		if isStatus(err, http.StatusBadRequest, http.StatusRequestEntityTooLarge) {
			return p.divide(ctx, batch, err)
		}
		batch = left
		if err == nil {
			err = fmt.Errorf("a broker could not store %d lines from line %d on", len(left), left[0].line)
		}
		if !p.worthRetrying(err, started) || !pauseFor(ctx, pause) {
			for _, e := range batch {
				p.fail(e.line)
			}
			return err
		}
		pause = min(2*pause, maxRetryPause)
	}
}

// try makes one call and returns what has to be sent again. The unit of commit is the partition, so that what failed
// of one partition is a run that nothing of the same partition has overtaken.
func (p *pipeline) try(ctx context.Context, batch []entry) ([]entry, error) {
	items := make([]client.Item, len(batch))
	for i, e := range batch {
		items[i] = e.item
	}
	results, err := p.client.Push(ctx, items)
	if err != nil {
		return batch, err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	var left []entry
	for i, r := range results {
		switch r.Status {
		case client.Queued, client.Buffered:
			p.stored++
		case client.Duplicate:
			p.duplicates++
		default:
			left = append(left, batch[i])
			continue
		}
		p.lastLine = max(p.lastLine, batch[i].line)
		p.progress(batch[i].size)
	}
	return left, nil
}

// divide finds the lines for which a broker refuses a whole call: its idea of JSON or of a name may be stricter.
func (p *pipeline) divide(ctx context.Context, batch []entry, refusal error) error {
	if len(batch) == 1 {
		var e *client.Error
		errors.As(refusal, &e)
		p.refuseLine(batch[0].line, batch[0].size, e.Message)
		return nil
	}
	half := len(batch) / 2
	if err := p.send(ctx, batch[:half]); err != nil {
		for _, e := range batch[half:] {
			p.fail(e.line)
		}
		return err
	}
	return p.send(ctx, batch[half:])
}

// worthRetrying: an outage may end, a refusal does not. Before the first line is stored, a wrong URL is the likelier
// reason, and nobody wants to wait for that.
func (p *pipeline) worthRetrying(err error, started time.Time) bool {
	var refused *client.Error
	if errors.As(err, &refused) && refused.Status < http.StatusInternalServerError {
		return false
	}
	var invalid *client.InvalidPayloadError
	if errors.As(err, &invalid) || time.Since(started) > p.retryFor {
		return false
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	var unreachable *client.UnreachableError
	return !errors.As(err, &unreachable) || p.stored+p.duplicates > 0
}

func pauseFor(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}

func (p *pipeline) refuseLine(line int64, size int, reason string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.refused++
	p.notStored(line)
	p.refuse(line, reason)
	p.progress(size)
}

func (p *pipeline) fail(line int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.failed++
	p.notStored(line)
}

func (p *pipeline) done(line int64, size int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.lastLine = max(p.lastLine, line)
	p.progress(size)
}

func (p *pipeline) notStored(line int64) {
	p.lastLine = max(p.lastLine, line)
	if p.resumeFrom == 0 || line < p.resumeFrom {
		p.resumeFrom = line
	}
}

func (p *pipeline) report() pushReport {
	p.mu.Lock()
	defer p.mu.Unlock()
	r := pushReport{
		Queue: p.queue, Source: p.source, Stored: p.stored, Duplicates: p.duplicates, Refused: p.refused, Failed: p.failed,
		ResumeFrom: p.resumeFrom,
	}
	if r.ResumeFrom == 0 {
		r.ResumeFrom = p.lastLine + 1
	}
	return r
}
