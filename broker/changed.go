package broker

import (
	"context"
	"time"

	"github.com/google/uuid"
)

// ChangedEntry asks which partitions of a queue were written to at or after Since, by name, after the one named After.
type ChangedEntry struct {
	Queue string
	Since time.Time
	After *string
	Limit int
}

// ChangedAnswer stands at the index of its entry. More says that there are partitions after the last one.
type ChangedAnswer struct {
	Problem    FetchProblem
	Partitions []ChangedPartition
	More       bool
}

// ChangedPartition is a partition that was written to. Last is its newest offset, Start the lowest retained one.
type ChangedPartition struct {
	Name      string
	Last      int64
	Start     int64
	WrittenAt time.Time
}

// Changes answers all entries. What is asked next time since Safe misses nothing: no write from before it can still become
// visible. Degraded says that a transaction that has been open for long holds it back.
type Changes struct {
	Safe     time.Time
	Degraded bool
	Entries  []ChangedAnswer
}

// Changed reads the safe point first, so that it bounds what the reads after it may have missed.
func (b *Broker) Changed(ctx context.Context, tenant uuid.UUID, entries []ChangedEntry) (Changes, error) {
	ctx, cancel := context.WithTimeout(ctx, dbTimeout)
	defer cancel()
	safe, age, err := b.db.SafePointAge(ctx)
	if err != nil {
		return Changes{}, unavailable(err)
	}
	out := Changes{Safe: safe, Degraded: age > b.config.SafeFloor, Entries: make([]ChangedAnswer, len(entries))}
	if len(entries) == 0 {
		return out, nil
	}
	queues, none := make([]string, len(entries)), make([]string, len(entries))
	for i := range entries {
		queues[i] = storableText(entries[i].Queue)
	}
	found, err := b.db.FetchResolve(ctx, tenant, queues, none)
	if err != nil {
		return Changes{}, unavailable(err)
	}
	for i := range entries {
		if found[i].Queue == 0 {
			out.Entries[i].Problem = UnknownTopic
			continue
		}
		if err := b.changedIn(ctx, found[i].Queue, &entries[i], &out.Entries[i]); err != nil {
			return Changes{}, unavailable(err)
		}
	}
	return out, nil
}

func (b *Broker) changedIn(ctx context.Context, queue int64, entry *ChangedEntry, answer *ChangedAnswer) error {
	after := entry.After
	if after != nil {
		storable := storableText(*after)
		after = &storable
	}
	rows, err := b.db.ChangedPartitions(ctx, queue, entry.Since, after, entry.Limit+1)
	if err != nil {
		return err
	}
	if len(rows) > entry.Limit {
		answer.More, rows = true, rows[:entry.Limit]
	}
	answer.Partitions = make([]ChangedPartition, len(rows))
	for i, row := range rows {
		answer.Partitions[i] = ChangedPartition{Name: row.Name, Last: row.Last, Start: row.Start, WrittenAt: row.WrittenAt}
	}
	return nil
}
