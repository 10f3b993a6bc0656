package pg_test

import (
	"context"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"waggle/pg"
	"waggle/pg/pgtest"
)

// reignBundle is a database in which one start id leads, without any session: what jobs see of a leader.
type reignBundle struct {
	*testing.T
	ctx    context.Context
	url    string
	db     *pg.DB
	reign  pg.Reign
	fenced *pg.Fenced
}

func newReign(t *testing.T) *reignBundle {
	t.Helper()
	ctx := t.Context()
	database := pgtest.New(t)
	db, err := pg.Open(ctx, pg.Config{URL: database.URL, MaxConns: 8, ApplicationName: "test", Knows: pg.Knows{System: 1, Record: 1}})
	require.NoError(t, err)
	t.Cleanup(db.Close)
	b := &reignBundle{T: t, ctx: ctx, url: database.URL, db: db}
	b.enthrone(uuid.New())
	return b
}

// enthrone raises the epoch for a start id, as a bump would.
func (b *reignBundle) enthrone(startID uuid.UUID) {
	b.Helper()
	b.reign = pg.Reign{StartID: startID}
	b.queryRow(`update waggle.leader set epoch = epoch + 1, start_id = $1, name = 'test', since = clock_timestamp()
		returning epoch, left(pg_walfile_name(pg_current_wal_lsn()), 8)`, []any{&b.reign.Epoch, &b.reign.Timeline}, startID)
	b.fenced = b.db.Fenced(b.reign)
}

func (b *reignBundle) exec(sql string, args ...any) {
	b.Helper()
	_, err := b.db.Pool().Exec(b.ctx, sql, args...)
	require.NoError(b, err)
}

func (b *reignBundle) queryRow(sql string, into []any, args ...any) {
	b.Helper()
	require.NoError(b, b.db.Pool().QueryRow(b.ctx, sql, args...).Scan(into...))
}

func (b *reignBundle) count(sql string, args ...any) (n int) {
	b.Helper()
	b.queryRow("select count(*) "+sql, []any{&n}, args...)
	return n
}
