package schema_test

import (
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"
	"go.uber.org/zap"

	"waggle/pg/pgtest"
	"waggle/pg/schema"
)

func absent(t *testing.T, conn *pgx.Conn) []schema.Absent {
	t.Helper()
	list, err := schema.AbsentIndexes(t.Context(), conn)
	require.NoError(t, err)
	return list
}

func TestIndexesAreBuiltBesideTrafficAndAnewWhereABuildWasCutOff(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	conn := open(t, db.URL)
	all := schema.Indexes()
	require.NotEmpty(t, all)
	require.Len(t, absent(t, conn), len(all), "no step builds them")
	// A build that is cut off while it waits for an old transaction leaves an index that is not valid.
	old := open(t, db.URL)
	execute(t, old, "begin isolation level repeatable read")
	execute(t, old, "select * from waggle.dead_letter")
	cut := open(t, db.URL)
	execute(t, cut, "set statement_timeout = 300")
	_, err := cut.Exec(t.Context(), all[0].SQL)
	require.ErrorContains(t, err, "statement timeout")
	require.True(t, absent(t, conn)[0].Invalid)

	// Leaders that build at once: one does it, and nobody takes what it builds for a leftover.
	var building sync.WaitGroup
	var total int64
	var mu sync.Mutex // guards total
	for range 3 {
		building.Go(func() {
			built, err := schema.BuildIndexes(t.Context(), db.URL, zap.NewNop())
			if err != nil {
				t.Error(err)
			}
			mu.Lock()
			defer mu.Unlock()
			total += built
		})
	}
	time.Sleep(300 * time.Millisecond) // they are at it, behind the old transaction
	execute(t, conn, "insert into waggle.dead_letter (queue_id, partition_id, group_name, record_offset, message_id, transaction_id, payload, error, retry_count) values (1, 1, 'g', 1, gen_random_uuid(), '', '', '', 0)")
	execute(t, old, "commit")
	building.Wait()
	require.Equal(t, int64(len(all)), total)
	require.Empty(t, absent(t, conn))
	require.Zero(t, one[int](t, conn, locksHeld))
}

func TestARoleThatMayNotBuildIndexesIsToldWhoMay(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	super := open(t, db.SuperURL)
	execute(t, super, "alter table waggle.dead_letter owner to current_user")
	execute(t, super, "grant all on waggle.dead_letter to "+pgtest.Role)
	_, err := schema.BuildIndexes(t.Context(), db.URL, zap.NewNop())
	var rights *schema.RightsError
	require.ErrorAs(t, err, &rights)
	require.ErrorContains(t, err, "let the owner of the tables run: create index concurrently")
}
