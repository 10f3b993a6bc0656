package broker

import (
	"context"
	"time"

	"github.com/google/uuid"

	"waggle/pg"
)

// FetchRequest reads logs by offset, without a cursor. It waits up to MaxWait until MinBytes of payload are there.
type FetchRequest struct {
	Tenant   uuid.UUID
	Entries  []FetchEntry
	MaxWait  time.Duration
	MinBytes int
}

// FetchEntry asks for records of one partition from Offset on, as many as fit MaxBytes of payload, but one at least.
type FetchEntry struct {
	Queue     string
	Partition string
	Offset    int64
	MaxBytes  int
}

// FetchProblem says why an entry brought nothing.
type FetchProblem string

// The problems of section 9.5 of the contract.
const (
	UnknownTopic     FetchProblem = "UNKNOWN_TOPIC_OR_PARTITION"
	OffsetOutOfRange FetchProblem = "OFFSET_OUT_OF_RANGE"
)

// Fetched answers an entry at the same index. High is the offset that the next record will get, Start the lowest retained
// one; they are equal when nothing is retained.
type Fetched struct {
	Records []FetchedRecord
	High    int64
	Start   int64
	Problem FetchProblem
}

// FetchedRecord is a message and its place.
type FetchedRecord struct {
	Offset int64
	Message
}

const (
	// fetchBytes bounds the payloads of one answer, fetchRecords the records of one entry.
	fetchBytes   = 64 << 20
	fetchRecords = 10000
	// fetchMemory bounds what all fetches read at one time.
	fetchMemory   = 4 * fetchBytes
	fetchSegments = 1024
	// A waiting fetch that no hint reaches looks again after firstFetchPause, then more and more rarely.
	firstFetchPause = 100 * time.Millisecond
	lastFetchPause  = 2 * time.Second
)

// Fetch answers every entry. Records are in offset order without gaps, but for what retention took. The memory of the
// answer is shared with other readers; release must be called once it has been written.
func (b *Broker) Fetch(ctx context.Context, req FetchRequest) (answers []Fetched, release func(), err error) {
	wanted := int64(0)
	queues := make([]string, len(req.Entries))
	for i := range req.Entries {
		wanted += int64(req.Entries[i].MaxBytes)
		queues[i] = req.Entries[i].Queue
	}
	wanted = min(wanted, fetchBytes)
	news, stop := b.tidings.listen(queues)
	defer stop()
	deadline := time.NewTimer(req.MaxWait)
	defer deadline.Stop()
	for pause, last := firstFetchPause, req.MaxWait <= 0; ; pause = min(2*pause, lastFetchPause) {
		if err := b.fetching.Acquire(ctx, wanted); err != nil {
			return nil, nil, err
		}
		release = func() { b.fetching.Release(wanted) }
		if !last {
			for _, queue := range queues {
				b.interested(queueKey{req.Tenant, queue})
			}
		}
		read, cancel := context.WithTimeout(ctx, dbTimeout)
		answers, err = b.fetchOnce(read, req)
		cancel()
		if err != nil {
			release()
			return nil, nil, unavailable(err)
		}
		if last || enough(answers, req.MinBytes) {
			return answers, release, nil
		}
		release()
		look := time.NewTimer(pause)
		select {
		case <-news:
		case <-look.C:
		case <-deadline.C:
			last = true
		case <-b.watch.drained:
			last = true
		case <-ctx.Done():
			look.Stop()
			return nil, nil, ctx.Err()
		}
		look.Stop()
	}
}

// enough tells whether the answer need not wait: it has the bytes, or a problem that waiting does not mend.
func enough(answers []Fetched, bytes int) bool {
	for i := range answers {
		if answers[i].Problem != "" {
			return true
		}
		for k := range answers[i].Records {
			bytes -= len(answers[i].Records[k].Payload)
		}
	}
	return bytes <= 0
}

// fetchOnce looks names up in the database and not in memory: a deleted queue must not look like an empty one.
func (b *Broker) fetchOnce(ctx context.Context, req FetchRequest) ([]Fetched, error) {
	answers := make([]Fetched, len(req.Entries))
	if len(req.Entries) == 0 {
		return answers, nil
	}
	queues, names := make([]string, len(req.Entries)), make([]string, len(req.Entries))
	for i := range req.Entries {
		queues[i], names[i] = storableText(req.Entries[i].Queue), storableText(req.Entries[i].Partition)
	}
	found, err := b.db.FetchResolve(ctx, req.Tenant, queues, names)
	if err != nil {
		return nil, err
	}
	ids := make([]int64, len(found))
	for i := range found {
		ids[i] = found[i].Partition
	}
	marks, err := b.db.FetchMarks(ctx, ids)
	if err != nil {
		return nil, err
	}
	var open []int
	var partitions, offsets, bytes []int64
	for i := range answers {
		entry, answer := &req.Entries[i], &answers[i]
		answer.High, answer.Start = marks[i].High, marks[i].Start
		switch {
		case found[i].Queue == 0:
			answer.Problem = UnknownTopic
		case entry.Offset < answer.Start || entry.Offset > answer.High:
			answer.Problem = OffsetOutOfRange
		case entry.Offset < answer.High:
			open = append(open, i)
			partitions, offsets = append(partitions, ids[i]), append(offsets, entry.Offset)
			bytes = append(bytes, int64(entry.MaxBytes))
		}
	}
	if len(open) == 0 {
		return answers, nil
	}
	segments, err := b.db.FetchSegments(ctx, partitions, offsets, bytes, fetchSegments)
	if err != nil {
		return nil, err
	}
	logs, err := b.catalog.partitionsByID(ctx, partitions)
	if err != nil {
		return nil, err
	}
	left := fetchBytes
	for k, i := range open {
		p := logs[partitions[k]]
		if p == nil || left <= 0 {
			continue
		}
		if err := b.fetchPartition(ctx, p, segments[k], &req.Entries[i], &answers[i], &left); err != nil {
			return nil, err
		}
	}
	return answers, nil
}

// fetchPartition reads segments one by one until the entry has what it may have.
func (b *Broker) fetchPartition(ctx context.Context, p *partition, segments []pg.Segment, entry *FetchEntry, answer *Fetched, left *int) error {
	room := min(entry.MaxBytes, *left)
	taken := 0
	for i := range segments {
		read, err := b.segmentsOf(ctx, p, &pg.Claiming{Segments: segments[i : i+1]})
		if err != nil {
			return err
		}
		for _, s := range read {
			for at := max(s.base, entry.Offset); at < s.end(); at++ {
				m, err := messageAt(s.segment, int(at-s.base), s.createdAt, at, p.id)
				if err != nil {
					return err
				}
				if n := len(answer.Records); n == fetchRecords || n > 0 && taken+len(m.Payload) > room {
					return nil
				}
				taken += len(m.Payload)
				*left -= len(m.Payload)
				answer.Records = append(answer.Records, FetchedRecord{Offset: at, Message: m})
			}
		}
	}
	return nil
}
