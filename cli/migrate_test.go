package cli

import (
	"encoding/json"
	"testing"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"waggle/pg"
	"waggle/pg/pgtest"
	"waggle/pg/schema"
)

func TestMigrateLooksAndMoves(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t, pgtest.Empty())
	migrate := func(code int, args ...string) outcome {
		t.Helper()
		got := run(t, "", append([]string{"migrate"}, append(args, "--database-url", db.URL)...)...)
		requireCode(t, code, got)
		return got
	}
	got := migrate(ExitDone, "status")
	require.Contains(t, got.stdout, "no waggle schema")
	require.Contains(t, got.stdout, "WG0022")
	got = migrate(ExitUsage, "finalize")
	require.Contains(t, got.stderr, "`migrate up` makes it")

	got = migrate(ExitDone, "up")
	require.Contains(t, got.stdout, "it was at step 0")
	got = migrate(ExitDone, "up")
	require.Contains(t, got.stdout, "nothing to apply")
	got = migrate(ExitDone, "status", "--output", "json")
	var status struct {
		Database struct {
			Current, Floor int
			Hold           *int
		}
		Build struct {
			Version      string
			Needs, Knows int
			Verdict      string
		}
		Brokers, Queues []any
	}
	require.NoError(t, json.Unmarshal([]byte(got.stdout), &status))
	require.Equal(t, "9.8.7", status.Build.Version)
	require.Empty(t, status.Build.Verdict)
	require.GreaterOrEqual(t, status.Database.Current, schema.BuildNeeds)
	require.Equal(t, 1, status.Database.Floor)
	require.Nil(t, status.Database.Hold)
	require.NotNil(t, status.Brokers)
	require.NotNil(t, status.Queues)
	got = migrate(ExitDone, "versions")
	require.Contains(t, got.stdout, "baseline")
	require.Contains(t, got.stdout, "9.8.7", "who applied it")
	got = migrate(ExitDone, "finalize", "--dry-run")
	require.Contains(t, got.stdout, "nothing blocks")

	got = migrate(ExitUsage, "down", "--target-version", "1")
	require.Contains(t, got.stderr, "cannot be undone")
	got = migrate(ExitUsage, "down", "--target-version", "999")
	require.Contains(t, got.stderr, "this build has no step 999")
	got = migrate(ExitUsage, "down")
	require.Contains(t, got.stderr, "--target-version")
}

func TestMigrateSaysWhatIsWrongWithTheDatabase(t *testing.T) {
	t.Parallel()
	got := run(t, "", "migrate", "status", "--database-url", "postgres://x:y@127.0.0.1:1/z")
	requireCode(t, ExitDatabase, got)
	require.Contains(t, got.stderr, "127.0.0.1:1 cannot be reached")
	got = run(t, "", "migrate", "status", "--database-url", "postgres://x:secret@127.0.0.1:abc/z")
	requireCode(t, ExitUsage, got)
	require.NotContains(t, got.stderr, "secret")
	require.Contains(t, got.stderr, "--database-url")
}

func TestMigrateMakesAPhysicalCopyAnotherInstallation(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	database, err := pg.Open(t.Context(), pg.Config{URL: db.URL})
	require.NoError(t, err)
	defer database.Close()
	original, err := database.EnsureInstallation(t.Context())
	require.NoError(t, err)
	conn, err := pgx.Connect(t.Context(), db.URL)
	require.NoError(t, err)
	defer conn.Close(t.Context())
	_, err = conn.Exec(t.Context(), `insert into waggle.broker (start_id, name, version, http, mesh, system_needs, system_knows, record_knows, frame_min, frame_max)
		values (gen_random_uuid(), 'broker-7', '0.1.0', '', '', 1, 1, 1, 1, 1)`)
	require.NoError(t, err)
	got := run(t, "", "migrate", "new-identity", "--database-url", db.URL)
	requireCode(t, ExitRefused, got)
	require.Regexp(t, `broker-7 \(version 0.1.0, seen \d+ s ago\)`, got.stdout)
	require.Contains(t, got.stderr, "stop them")

	_, err = conn.Exec(t.Context(), "update waggle.broker set seen_at = clock_timestamp() - interval '1 minute'")
	require.NoError(t, err)
	got = run(t, "", "migrate", "new-identity", "--database-url", db.URL)
	requireCode(t, ExitDone, got)
	copied, err := database.EnsureInstallation(t.Context())
	require.NoError(t, err)
	require.NotEqual(t, original.ClusterID, copied.ClusterID)
	require.Contains(t, got.stdout, copied.ClusterID.String())
	require.NotEqual(t, original.MeshKeys, copied.MeshKeys)
	require.Equal(t, original.IDKey, copied.IDKey, "ids that clients hold lead back")
	require.Equal(t, []uuid.UUID{original.ClusterID}, copied.Former)
}
