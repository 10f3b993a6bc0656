package pg

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
)

const (
	cleanPage = 1000
	// cleanTogether bounds the partitions that one transaction takes away.
	cleanTogether = 100
)

// Partitions takes away partitions that were emptied by retention and not written to for long. One Partitions serves one
// reign: it remembers how far it has come.
type Partitions struct {
	fenced *Fenced
	at     int64
}

// Partitions begins with the first partition.
func (f *Fenced) Partitions() *Partitions { return &Partitions{fenced: f} }

// Clean looks at the next page of partitions and takes those away that are empty and were not written to for idle. rows counts
// them. A push that comes later makes the partition anew, under another id and from offset 0; one that is under way wins.
// more is false after the last page; the next call begins again.
func (p *Partitions) Clean(ctx context.Context, idle time.Duration) (rows int64, more bool, err error) {
	var found []int64
	var last, seen int64
	err = p.fenced.Do(ctx, func(ctx context.Context, tx pgx.Tx) error {
		return tx.QueryRow(ctx, statement("clean_pick"), p.at, cleanPage, idle.Seconds()).Scan(&found, &last, &seen)
	})
	if err != nil {
		return 0, false, fmt.Errorf("look for idle partitions: %w", err)
	}
	for len(found) > 0 {
		batch := found[:min(len(found), cleanTogether)]
		found = found[len(batch):]
		taken, err := p.take(ctx, batch, idle)
		rows += taken
		if err != nil {
			return rows, false, fmt.Errorf("take idle partitions away: %w", err)
		}
	}
	if p.at, more = last, seen == cleanPage; !more {
		p.at = 0
	}
	return rows, more, nil
}

func (p *Partitions) take(ctx context.Context, batch []int64, idle time.Duration) (taken int64, err error) {
	err = p.fenced.Do(ctx, func(ctx context.Context, tx pgx.Tx) error {
		locked, err := tx.Query(ctx, statement("clean_lock"), batch)
		if err != nil {
			return err
		}
		held, err := pgx.CollectRows(locked, pgx.RowTo[int64])
		if err != nil || len(held) == 0 {
			return err
		}
		if _, err := tx.Exec(ctx, statement("statistics_lock"), held); err != nil {
			return err
		}
		return tx.QueryRow(ctx, statement("clean_take"), held, idle.Seconds()).Scan(&taken)
	})
	return taken, err
}

// CleanDeadLetters deletes dead letters that are older than the option deadLetterRetentionSeconds of their queue says, or else
// than after, zero for never; a batch at a time.
func (f *Fenced) CleanDeadLetters(ctx context.Context, after time.Duration) (rows int64, more bool, err error) {
	return f.clean(ctx, "job_clean_letters", after)
}
