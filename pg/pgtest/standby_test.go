package pgtest

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestStandbyFollowsLagsAndIsPromoted(t *testing.T) {
	t.Parallel()
	primary := NewServer(t, nil)
	db := New(t, On(primary), Empty())
	conn := open(t, db.URL)
	write := func(statement string) {
		_, err := conn.Exec(t.Context(), statement)
		require.NoError(t, err)
	}
	write("create table work (n int)")
	standby := NewStandby(t, primary)
	write("insert into work values (1)")
	standby.CatchUp()
	there := open(t, db.On(standby.Server))
	require.Equal(t, 1, one[int](t, there, "select max(n) from work"))
	require.True(t, one[bool](t, there, "select pg_is_in_recovery()"))
	standby.Lag()
	write("insert into work values (2)")
	primary.Kill()
	standby.Promote()
	require.Equal(t, 1, one[int](t, there, "select max(n) from work"), "what it did not hear of is lost")
	require.False(t, one[bool](t, there, "select pg_is_in_recovery()"))
	require.Equal(t, "00000002", one[string](t, there, "select left(pg_walfile_name(pg_current_wal_lsn()), 8)"))
}

func TestDedicatedServerEndsImmediately(t *testing.T) {
	t.Parallel()
	server := NewServer(t, nil)
	db := New(t, On(server), Empty())
	conn := open(t, db.URL)
	_, err := conn.Exec(t.Context(), "create table work (n int)")
	require.NoError(t, err)
	server.StopImmediately()
	_, err = conn.Exec(t.Context(), "select 1")
	require.Error(t, err)
	server.Start()
	require.True(t, one[bool](t, open(t, db.URL), "select to_regclass('work') is not null"), "it recovers")
}
