package schema_test

import (
	"context"
	"testing"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/stretchr/testify/require"

	"waggle/pg/pgtest"
	"waggle/pg/schema"
)

// buriedByOld is how 0.1.0 buries a record: it knows neither the time of the push nor of doubles.
const buriedByOld = `insert into waggle.dead_letter (queue_id, partition_id, group_name, record_offset, message_id, transaction_id, payload, error, retry_count)
	values (1, $1, $2, $3, gen_random_uuid(), 'tx', '{}', $4, 0)`

func TestDeadLettersOfOlderBuildsAreMadeWholeByFinalize(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	conn := open(t, db.URL)
	execute(t, conn, `insert into waggle.segment (partition_id, base_offset, created_at, count, format, ids, body)
		values (7, 10, '2031-01-01 00:00:00Z', 5, 1, '', ''), (7, 20, '2031-01-02 00:00:00Z', 5, 1, '', '')`)
	execute(t, conn, buriedByOld, 7, "a", 12, "first")
	execute(t, conn, buriedByOld, 7, "a", 12, "second")
	execute(t, conn, buriedByOld, 7, "b", 12, "of another group")
	execute(t, conn, buriedByOld, 7, "a", 24, "last of the second")
	execute(t, conn, buriedByOld, 7, "a", 17, "its segment is gone")
	execute(t, conn, buriedByOld, 8, "a", 12, "of another partition")
	m, err := schema.OpenMigration(t.Context(), db.URL, schema.Options{Build: "9.0.0"})
	require.NoError(t, err)
	defer m.Close(context.Background())
	found := `select string_agg(error_text || ' ' || place, '; ' order by id) from (
		select id, convert_from(error, 'utf8') as error_text, case when pushed_at = failed_at then 'at failure' else to_char(pushed_at at time zone 'utc', 'YYYY-MM-DD') end as place
		from waggle.dead_letter) l`
	for range 2 {
		_, err = m.Finalize(t.Context(), 0, false)
		require.NoError(t, err)
		require.Equal(t, "second 2031-01-01; of another group 2031-01-01; last of the second 2031-01-02; its segment is gone at failure; "+
			"of another partition at failure", one[string](t, conn, found))

		_, err = conn.Exec(t.Context(), buriedByOld, 7, "a", 13, "of a build that should be gone")
		var refused *pgconn.PgError
		require.ErrorAs(t, err, &refused)
		require.Equal(t, "23502", refused.Code, "what an older build writes fails, also past the fence")

		_, err = m.Down(t.Context(), 9)
		require.NoError(t, err)
		execute(t, conn, buriedByOld, 7, "a", 12, "second")
		_, err = m.Up(t.Context(), 0)
		require.NoError(t, err)
		execute(t, conn, "delete from waggle.dead_letter where id = (select max(id) from waggle.dead_letter)")
	}
}
