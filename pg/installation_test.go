package pg_test

import (
	"context"
	"sync"
	"testing"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"waggle/pg"
	"waggle/pg/pgtest"
)

func openDB(t *testing.T, url string) *pg.DB {
	t.Helper()
	db, err := pg.Open(t.Context(), pg.Config{URL: url, MaxConns: 8, ApplicationName: "test", Knows: pg.Knows{System: 1, Record: 1}})
	require.NoError(t, err)
	t.Cleanup(db.Close)
	return db
}

func ensure(t *testing.T, db *pg.DB) pg.Installation {
	t.Helper()
	installation, err := db.EnsureInstallation(t.Context())
	require.NoError(t, err)
	return installation
}

func TestInstallationIsMadeOnceHoweverManyBrokersBootAtOnce(t *testing.T) {
	t.Parallel()
	db := openDB(t, pgtest.New(t).URL)
	found := make([]pg.Installation, 8)
	var all sync.WaitGroup
	for i := range found {
		all.Go(func() {
			var err error
			if found[i], err = db.EnsureInstallation(context.Background()); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	for _, other := range found {
		require.Equal(t, found[0], other)
	}
	require.Len(t, found[0].MeshKeys, 1)
	require.Len(t, found[0].MeshKeys[0], 32)
	require.Len(t, found[0].IDKey, 32)
	require.NotZero(t, found[0].ClusterID)
	require.NotEmpty(t, found[0].Home.SystemIdentifier)
	require.NotZero(t, found[0].Home.DatabaseOID)
	require.Nil(t, found[0].Original)
	ring, err := db.MeshRing(t.Context())
	require.NoError(t, err)
	require.Equal(t, pg.MeshRing{Number: 1, Keys: found[0].MeshKeys}, ring)
	require.Equal(t, ring.Number, found[0].MeshRing)
}

func TestCopiedDatabaseGetsAnIdentityOfItsOwnAndSaysSo(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]string{
		"restored on another server":     "update waggle.installation set system_identifier = '42'",
		"restored into another database": "update waggle.installation set database_oid = 42",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			db := openDB(t, pgtest.New(t).URL)
			before := ensure(t, db)
			broker := registration("a")
			require.NoError(t, db.Admit(t.Context(), broker))
			_, err := db.Pool().Exec(t.Context(), change)
			require.NoError(t, err)

			after := ensure(t, db)
			require.NotNil(t, after.Original)
			require.Equal(t, before.ClusterID, after.Original.ClusterID)
			require.NotEqual(t, before.Home, after.Original.Home)
			require.Equal(t, before.Home, after.Home)
			require.NotEqual(t, before.ClusterID, after.ClusterID)
			require.Empty(t, before.Former)
			require.Equal(t, []uuid.UUID{before.ClusterID}, after.Former, "what is encrypted is bound to it")
			require.NotEqual(t, before.MeshKeys, after.MeshKeys)
			require.Equal(t, before.IDKey, after.IDKey, "ids that clients hold stay valid")
			live, err := db.LiveBrokers(t.Context())
			require.NoError(t, err)
			require.Empty(t, live, "the brokers of the original are not ours")

			again := ensure(t, db)
			require.Nil(t, again.Original, "it is said once")
			require.Equal(t, after.ClusterID, again.ClusterID)
		})
	}
}

func TestRealCopyIsNoticed(t *testing.T) {
	t.Parallel()
	original := pgtest.New(t)
	first, err := pg.Open(t.Context(), pg.Config{URL: original.URL, MaxConns: 4})
	require.NoError(t, err)
	before := ensure(t, first)
	first.Close()

	super, err := pgx.Connect(t.Context(), pgtest.New(t, pgtest.Empty()).SuperURL)
	require.NoError(t, err)
	defer super.Close(context.Background())
	_, err = super.Exec(t.Context(), "alter database "+original.Name+" rename to "+original.Name+"_origin")
	require.NoError(t, err)
	_, err = super.Exec(t.Context(), "create database "+original.Name+" template "+original.Name+"_origin owner "+pgtest.Role)
	require.NoError(t, err)
	t.Cleanup(func() {
		super, err := pgx.Connect(context.Background(), original.SuperURL)
		require.NoError(t, err)
		defer super.Close(context.Background())
		_, err = super.Exec(context.Background(), "drop database "+original.Name+"_origin with (force)")
		require.NoError(t, err)
	})
	after := ensure(t, openDB(t, original.URL))
	require.NotNil(t, after.Original)
	require.Equal(t, before.Home, after.Original.Home)
	require.Equal(t, before.Home.SystemIdentifier, after.Home.SystemIdentifier)
	require.NotEqual(t, before.ClusterID, after.ClusterID)
}

func TestBrokersThatFindACopyAtOnceAgreeOnOneIdentity(t *testing.T) {
	t.Parallel()
	db := openDB(t, pgtest.New(t).URL)
	ensure(t, db)
	_, err := db.Pool().Exec(t.Context(), "update waggle.installation set database_oid = 42")
	require.NoError(t, err)
	found := make([]pg.Installation, 8)
	var all sync.WaitGroup
	for i := range found {
		all.Go(func() {
			var err error
			if found[i], err = db.EnsureInstallation(context.Background()); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	said := 0
	for _, other := range found {
		require.Equal(t, found[0].ClusterID, other.ClusterID)
		require.Equal(t, found[0].MeshKeys, other.MeshKeys)
		if other.Original != nil {
			said++
		}
	}
	require.Equal(t, 1, said)
}
