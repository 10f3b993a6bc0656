package pg_test

import (
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"waggle/pg"
)

func TestCleanTracesForgetsOldOnesWithTheirNames(t *testing.T) {
	t.Parallel()
	b := newReign(t)
	tenant := uuid.New()
	var queue, partition int64
	b.queryRow(`insert into waggle.queue (tenant, name) values ($1, 'q') returning id`, []any{&queue}, tenant)
	b.queryRow(`insert into waggle.partition (queue_id, name) values ($1, 'p') returning id`, []any{&partition}, queue)
	write := func(names ...string) {
		owned, err := b.db.WriteTrace(b.ctx, pg.NewTrace{
			ID: uuid.Must(uuid.NewV7()), Tenant: tenant, Partition: partition, TransactionHash: []byte("h"), TransactionID: "t",
			Group: "g", EventType: "info", Data: []byte("1"), Names: names,
		})
		require.NoError(t, err)
		require.True(t, owned)
	}
	write("a", "b")
	write()
	b.exec(`update waggle.trace set created_at = created_at - interval '31 days'`)
	b.exec(`update waggle.trace_name set created_at = created_at - interval '31 days'`)
	write("a")

	rows, more, err := b.fenced.CleanTraces(b.ctx, 30*24*time.Hour)
	require.NoError(t, err)
	require.EqualValues(t, 2, rows)
	require.False(t, more)
	require.Equal(t, 1, b.count("from waggle.trace"))
	require.Equal(t, 1, b.count("from waggle.trace_name"))

	owned, err := b.db.WriteTrace(b.ctx, pg.NewTrace{ID: uuid.New(), Tenant: uuid.New(), Partition: partition, TransactionHash: []byte{}, Data: []byte("1")})
	require.NoError(t, err)
	require.False(t, owned, "not the tenant's partition")
	require.Equal(t, 1, b.count("from waggle.trace"))
}
