package admin

import (
	"context"
	"strings"
	"time"

	"github.com/google/uuid"

	"waggle/pg"
)

// DeadLetterFilter chooses dead letters. An empty Queue or Group binds nothing.
type DeadLetterFilter struct {
	Queue  string
	Group  string
	Limit  int
	Offset int
}

// DeadLetter is a message that a group gave up, with the payload it had: it outlives the log.
type DeadLetter struct {
	ID            int64
	TransactionID string
	PartitionID   uuid.UUID
	Queue         string
	Partition     string
	Group         string
	Error         string
	RetryCount    int
	// Payload is JSON as it was pushed; null where it is encrypted and cannot be opened here.
	Payload     []byte
	IsEncrypted bool
	ProducerSub string
	FailedAt    time.Time
	// PushedAt is the zero time where it is not known.
	PushedAt time.Time
}

// maxPageBytes bounds the payloads of one page, as answers of pops are bounded. A page that was cut holds fewer
// letters than its limit; the next one begins at the offset plus what it held.
const maxPageBytes = 32 << 20

// DeadLetters lists dead letters of a tenant, newest failure first.
func (r *Reader) DeadLetters(ctx context.Context, tenant uuid.UUID, filter DeadLetterFilter) ([]DeadLetter, error) {
	ctx, cancel := context.WithTimeout(ctx, queryTimeout)
	defer cancel()
	rows, err := r.db.ListDeadLetters(ctx, pg.DeadLetterPage{
		Tenant: tenant, Queue: given(filter.Queue), Group: given(filter.Group),
		Limit: filter.Limit, Offset: filter.Offset, MaxBytes: maxPageBytes,
	})
	if err != nil {
		return nil, failed("list dead letters", err)
	}
	r.openLetters(rows)
	letters := make([]DeadLetter, len(rows))
	for i := range rows {
		row := &rows[i]
		var pushed time.Time
		if row.PushedAt != nil {
			pushed = *row.PushedAt
		}
		letters[i] = DeadLetter{
			ID: row.ID, TransactionID: row.TransactionID, PartitionID: r.ids.Partition(row.PartitionID),
			Queue: row.Queue, Partition: row.Partition, Group: row.Group,
			Error: strings.ToValidUTF8(string(row.Error), "\ufffd"), RetryCount: int(row.RetryCount),
			Payload: row.Payload, IsEncrypted: row.Sealed, ProducerSub: row.ProducerSub, FailedAt: row.FailedAt, PushedAt: pushed,
		}
	}
	return letters, nil
}

func given(text string) *string {
	if text == "" {
		return nil
	}
	return &text
}
