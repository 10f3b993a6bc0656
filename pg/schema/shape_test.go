package schema_test

import (
	"encoding/json"
	"flag"
	"os"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"waggle/pg/pgtest"
	"waggle/pg/schema"
)

var update = flag.Bool("update", false, "write shapes.json anew")

func shapeOf(t *testing.T, conn *pgx.Conn) schema.Shape {
	t.Helper()
	shape, err := schema.ReadShape(t.Context(), conn)
	require.NoError(t, err)
	return shape
}

func TestShapesAreThoseOfTheSteps(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t, pgtest.Empty())
	conn := open(t, db.URL)
	m, err := schema.OpenMigration(t.Context(), db.URL, schema.Options{Build: "test"})
	require.NoError(t, err)
	defer m.Close(t.Context())
	_, err = m.Up(t.Context(), schema.BuildNeeds)
	require.NoError(t, err)
	made := map[int]schema.Shape{schema.BuildNeeds: shapeOf(t, conn)}
	for step := schema.BuildNeeds + 1; step <= schema.BuildKnows; step++ {
		_, err = m.Finalize(t.Context(), step, false)
		require.NoError(t, err)
		made[step] = shapeOf(t, conn)
	}
	text, err := json.MarshalIndent(made, "", " ")
	require.NoError(t, err)
	if *update {
		require.NoError(t, os.WriteFile("shapes.json", append(text, '\n'), 0o644))
		return
	}
	written, err := os.ReadFile("shapes.json")
	require.NoError(t, err)
	require.JSONEq(t, string(text), string(written), "go generate ./pg/schema writes it anew")
}

// Whatever is broken is named, and the script makes the tables whole again.
func TestTheShapeIsCheckedAndMended(t *testing.T) {
	t.Parallel()
	for damage, says := range map[string]string{
		"drop table waggle.partition":                                                    "table partition is missing",
		"drop table waggle.cursor, waggle.consumer_group":                                "table consumer_group is missing, table cursor is missing",
		"alter table waggle.queue drop column version":                                   "column queue.version is missing",
		"alter table waggle.partition drop column name":                                  "column partition.name is missing",
		"alter table waggle.cursor alter column attempt type bigint":                     "column cursor.attempt is bigint and not integer",
		"alter table waggle.queue alter column name type text collate \"default\"":       "column queue.name is text and not text collate \"C\"",
		"alter table waggle.queue alter column options drop default":                     "column queue.options has not the default '{}'::jsonb",
		"alter table waggle.queue alter column options drop not null":                    "column queue.options may be null",
		"alter table waggle.segment alter column body set not null":                      "column segment.body may not be null",
		"alter table waggle.queue alter column id drop identity":                         "column queue.id does not number its rows",
		"alter table waggle.segment drop constraint segment_pkey":                        "constraint segment_pkey of segment, PRIMARY KEY (partition_id, base_offset), is missing",
		"alter table waggle.cursor drop constraint cursor_partition_id_group_id_key":     "constraint cursor_partition_id_group_id_key of cursor, UNIQUE (partition_id, group_id), is missing",
		"alter table waggle.gate drop constraint gate_id_check":                          "constraint gate_id_check of gate, CHECK (id), is missing",
		"drop index waggle.queue_name; create index queue_name on waggle.queue (tenant)": "",
		"drop index waggle.segment_created_at":                                           "",
		"create table waggle.mine (n int); alter table waggle.queue add column mine int": "nothing",
	} {
		t.Run(damage, func(t *testing.T) {
			t.Parallel()
			db := pgtest.New(t)
			conn := open(t, db.URL)
			whole := shapeOf(t, conn)
			execute(t, conn, damage)
			harmless, err := schema.CheckShape(t.Context(), conn)
			if says == "nothing" {
				require.NoError(t, err)
				require.Empty(t, harmless)
				return
			}
			var wrong *schema.ShapeError
			if says == "" {
				require.NoError(t, err)
				require.Len(t, harmless, 1)
				wrong = &schema.ShapeError{Differences: harmless}
			} else {
				require.ErrorAs(t, err, &wrong)
				require.Contains(t, err.Error(), "WG0054 the tables of waggle are not as this build needs them: "+says)
			}
			execute(t, conn, wrong.Script())
			harmless, err = schema.CheckShape(t.Context(), conn)
			require.NoError(t, err)
			require.Empty(t, harmless)
			require.Equal(t, whole, shapeOf(t, conn))
		})
	}
}

// A database that newer builds have moved on may have other defaults, and is run on.
func TestTheShapeOfANewerDatabaseIsJudgedMildly(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t, pgtest.Finalized())
	conn := open(t, db.URL)
	execute(t, conn, "insert into waggle.schema_step (scope, version, name, build) values ('system', $1, 'later', 'later')", schema.BuildKnows+1)
	execute(t, conn, "alter table waggle.queue alter column options drop default, alter column namespace drop not null")
	_, err := schema.CheckShape(t.Context(), conn)
	require.NoError(t, err)
	execute(t, conn, "alter table waggle.queue drop column version")
	_, err = schema.CheckShape(t.Context(), conn)
	require.ErrorContains(t, err, "queue.version")
}

// What another program made, or what is there in part, is named and left alone.
func TestForeignAndHalfAppliedSchemasAreLeftAlone(t *testing.T) {
	t.Parallel()
	for name, row := range map[string]struct {
		empty      bool
		damage     string
		code, says string
	}{
		"another program's tables": {true, "create schema waggle; create table waggle.bees (n int); create view waggle.hive as select 1", schema.CodeStranger, `it holds "bees", "hive" and no schema_step`},
		"another trail":            {true, "create schema waggle; create table waggle.schema_step (id int)", schema.CodeStranger, "its table schema_step has other columns"},
		"a gap in the trail":       {false, "delete from waggle.schema_step where version = 4", schema.CodeHalfApplied, "step 5 is recorded and step 4 before it is not"},
		"a trail and no tables": {true, `create schema waggle; create table waggle.schema_step (scope text, version int, name text, applied_at timestamptz, build text);
			insert into waggle.schema_step select 'system', n, 'x', now(), 'x' from generate_series(1, 10) n`, schema.CodeHalfApplied, "steps up to 10 are recorded and no table is there"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var options []pgtest.Option
			if row.empty {
				options = append(options, pgtest.Empty())
			}
			db := pgtest.New(t, options...)
			conn := open(t, db.URL)
			execute(t, conn, row.damage)
			before := shapeOf(t, conn)
			_, err := schema.Apply(t.Context(), db.URL, schema.Options{Build: "test"})
			var stranger *schema.StrangerError
			require.ErrorAs(t, err, &stranger)
			require.Equal(t, row.code, stranger.Code)
			require.Contains(t, err.Error(), row.says)
			m, err := schema.OpenMigration(t.Context(), db.URL, schema.Options{Build: "test"})
			require.NoError(t, err)
			defer m.Close(t.Context())
			for _, move := range []func() error{
				func() error { _, err := m.Status(t.Context(), schema.ThisBuild("x")); return err },
				func() error { _, err := m.Up(t.Context(), 0); return err },
				func() error { _, err := m.Finalize(t.Context(), 0, false); return err },
				func() error { _, err := m.Down(t.Context(), 9); return err },
			} {
				require.ErrorAs(t, move(), &stranger)
			}
			require.Equal(t, before, shapeOf(t, conn), "nothing was touched")
		})
	}
}
