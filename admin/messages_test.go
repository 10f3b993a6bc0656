package admin

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"waggle/broker/segment"
	"waggle/pg"
)

// records stores a segment of messages {"n":first} and so on, with the transaction ids t-first….
func (b *bundle) records(partition, base int64, first, count int, at time.Time, padding int) {
	b.Helper()
	var builder segment.Builder
	for i := range count {
		id := fmt.Sprintf("t-%d", first+i)
		record := segment.Record{TransactionID: &id, Payload: fmt.Appendf(nil, `{"n":%d,"pad":%q}`, first+i, strings.Repeat("x", padding))}
		builder.AppendEncoded(segment.AppendRecord(nil, &record), segment.HashOf(id))
	}
	var packer segment.Packer
	b.exec(`insert into waggle.segment (partition_id, base_offset, created_at, count, format, ids, body)
		values ($1, $2, $3, $4, $5, $6, $7)`, partition, base, at, count, segment.Format, builder.IDs(), packer.Body(&builder, segment.Format))
}

func (b *bundle) list(filter MessageFilter) []string {
	b.Helper()
	if filter.From.IsZero() {
		filter.From, filter.Before = past.Add(-time.Hour), past.Add(100*time.Hour)
	}
	page, err := b.reader.Messages(b.Context(), b.tenant, filter)
	require.NoError(b, err)
	out := []string{}
	for _, m := range page.Messages {
		out = append(out, m.TransactionID)
	}
	return out
}

func TestAPageOfMessagesEndsBeforeItIsTooLarge(t *testing.T) {
	b := setup(t)
	partition := b.partition(b.queue("q"), "p")
	for i := range 6 {
		b.records(partition, int64(i), i, 1, past.Add(time.Duration(i)*time.Second), 5<<20)
	}
	first := b.list(MessageFilter{Limit: 100})
	require.Equal(t, []string{"t-5", "t-4", "t-3"}, first)
	require.Equal(t, []string{"t-2", "t-1", "t-0"}, b.list(MessageFilter{Limit: 100, Offset: len(first)}))
}

func TestMessagesOfManyPartitionsAndSegmentsArePaged(t *testing.T) {
	b := setup(t)
	queue := b.queue("q")
	const partitions = fewPartitions + 100
	var builder segment.Builder
	record := segment.Record{Payload: []byte("1")}
	for range 2 {
		builder.AppendEncoded(segment.AppendRecord(nil, &record), segment.Hash{})
	}
	var packer segment.Packer
	_, err := b.db.Pool().Exec(t.Context(), `with made as (
			insert into waggle.partition (queue_id, name) select $1, i::text from generate_series(1, $2::int) i returning id, name)
		insert into waggle.segment (partition_id, base_offset, created_at, count, format, ids, body)
		select id, 0, $3::timestamptz + make_interval(secs => name::int), 2, 1, $4, $5 from made`,
		queue, partitions, past, builder.IDs(), packer.Body(&builder, segment.Format))
	require.NoError(t, err)
	group := b.group(queue, "g", true)
	b.exec(`insert into waggle.cursor (partition_id, group_id, committed) select id, $1, name::int % 2 from waggle.partition`, group)
	page := func(filter MessageFilter) (out []string) {
		filter.From, filter.Before = past.Add(-time.Hour), past.Add(100*time.Hour)
		listed, err := b.reader.Messages(t.Context(), b.tenant, filter)
		require.NoError(t, err)
		for _, m := range listed.Messages {
			out = append(out, fmt.Sprintf("%s/%d", m.Partition, m.Index))
		}
		return out
	}
	require.Equal(t, []string{"1100/1", "1100/0", "1099/1"}, page(MessageFilter{Limit: 3}))
	require.Equal(t, []string{"2/1", "2/0", "1/1", "1/0"}, page(MessageFilter{Limit: 9, Offset: 2*partitions - 4}))
	require.Equal(t, []string{"1100/1", "1098/1", "1096/1"}, page(MessageFilter{Limit: 3, Status: MessagePending}))
	require.Equal(t, []string{"4/1", "2/1"}, page(MessageFilter{Limit: 9, Offset: partitions/2 - 2, Status: MessagePending}))
	require.Equal(t, []string{"7/1", "7/0"}, page(MessageFilter{Limit: 9, Partition: "7"}))
}

func TestAMessageIsJudgedByAllWhoHaveASay(t *testing.T) {
	t.Parallel()
	soon, later := time.Now().Add(time.Minute), time.Now().Add(time.Hour)
	upto := func(n int64) *int64 { return &n }
	mark := func(group string, committed int64) pg.MessageMark {
		return pg.MessageMark{Group: group, Committed: committed}
	}
	leased := func(group string, committed, to int64, until time.Time) pg.MessageMark {
		return pg.MessageMark{Group: group, Committed: committed, LeasedTo: upto(to), LeaseExpires: &until}
	}
	for name, c := range map[string]struct {
		groups  []pg.MessageMark
		letter  bool
		want    MessageStatus
		expires time.Time
	}{
		"nobody":                                   {want: MessagePending},
		"queue mode ahead":                         {groups: []pg.MessageMark{mark(queueMode, 5)}, want: MessageCompleted},
		"queue mode behind":                        {groups: []pg.MessageMark{mark(queueMode, 4)}, want: MessagePending},
		"queue mode at it":                         {groups: []pg.MessageMark{leased(queueMode, 4, 5, soon)}, want: MessageProcessing, expires: soon},
		"a lease that ends before":                 {groups: []pg.MessageMark{leased(queueMode, 2, 4, soon)}, want: MessagePending},
		"a group outranks queue mode":              {groups: []pg.MessageMark{mark(queueMode, 9), mark("a", 4)}, want: MessagePending},
		"all groups must be past":                  {groups: []pg.MessageMark{mark("a", 9), mark("b", 4)}, want: MessagePending},
		"all groups are past":                      {groups: []pg.MessageMark{mark("a", 9), mark("b", 5), mark(queueMode, -1)}, want: MessageCompleted},
		"one group is at it":                       {groups: []pg.MessageMark{mark("a", 9), leased("b", 4, 8, later)}, want: MessageProcessing, expires: later},
		"the last lease counts":                    {groups: []pg.MessageMark{leased("a", 4, 8, later), leased("b", 4, 8, soon)}, want: MessageProcessing, expires: later},
		"queue mode's lease is none of the groups": {groups: []pg.MessageMark{leased(queueMode, 4, 8, later), mark("b", 4)}, want: MessagePending},
		"a dead letter":                            {groups: []pg.MessageMark{mark("a", 9)}, letter: true, want: MessageDeadLetter},
	} {
		s := &standing{groups: c.groups, letters: map[int64]bool{5: c.letter}}
		got := s.judge(5)
		require.Equal(t, c.want, got.status, name)
		require.True(t, c.expires.Equal(got.leaseExpiresAt), name)
	}
}
