package bench

import (
	"sync"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
)

// sample is what one side measured.
type sample struct {
	// rate is messages a second.
	rate     float64
	messages int64
	// latencies are in microseconds: of a request, or for wake from the planned push to the answer.
	latencies *hdrhistogram.Histogram
	cost      cost
	failed    int64
	failure   error
	tally     *Tally
}

func (s *sample) quantile(q float64) float64 {
	return float64(s.latencies.ValueAtQuantile(q)) / 1000
}

// maxLatency bounds the histograms; slower requests count as this slow.
const maxLatency = 60 * time.Second

func newHistogram() *hdrhistogram.Histogram {
	return hdrhistogram.New(1, maxLatency.Microseconds(), 2)
}

// counter is one worker's share of a sample. Only its worker writes it, until the worker has ended.
type counter struct {
	messages  int64
	latencies *hdrhistogram.Histogram
	failed    int64
	failure   error
}

func newCounter() *counter { return &counter{latencies: newHistogram()} }

func (c *counter) done(messages int, took time.Duration) {
	c.messages += int64(messages)
	_ = c.latencies.RecordValue(min(max(took, time.Microsecond), maxLatency).Microseconds()) // cannot be out of range
}

func (c *counter) fail(err error) {
	c.failed++
	if c.failure == nil {
		c.failure = err
	}
}

// gather runs one goroutine per counter and returns their sum once all have ended.
func gather(workers int, work func(worker int, c *counter)) func() *sample {
	counters := make([]*counter, workers)
	var running sync.WaitGroup
	for i := range counters {
		counters[i] = newCounter()
		running.Go(func() { work(i, counters[i]) })
	}
	return func() *sample {
		running.Wait()
		sum := &sample{latencies: newHistogram()}
		for _, c := range counters {
			sum.messages += c.messages
			sum.failed += c.failed
			if sum.failure == nil {
				sum.failure = c.failure
			}
			sum.latencies.Merge(c.latencies)
		}
		return sum
	}
}

// span is the time that counts. Work goes on before it, to warm up, and what ends after it is not counted.
type span struct {
	begin, end time.Time
}

func (s span) holds(t time.Time) bool { return !t.Before(s.begin) && t.Before(s.end) }
