package schema_test

import (
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"waggle/pg/schema"
)

func TestDecide(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		needs, knows, current, floor int
		want                         schema.Verdict
	}{
		"same":                                   {3, 3, 3, 1, schema.Admitted},
		"no schema at all":                       {1, 3, 0, 0, schema.Older},
		"one step too old":                       {3, 5, 2, 1, schema.Older},
		"exactly what is needed":                 {3, 5, 3, 1, schema.Admitted},
		"additive steps ahead of the build":      {3, 5, 9, 1, schema.Admitted},
		"floor at what the build knows":          {3, 5, 9, 5, schema.Admitted},
		"floor above what the build knows":       {3, 5, 9, 6, schema.Newer},
		"too old and floor above: older is told": {3, 5, 2, 6, schema.Older},
		"build of the floor-raising step, early": {5, 6, 5, 1, schema.Admitted},
		"the release after it, floor not raised": {6, 7, 5, 1, schema.Older},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			require.Equal(t, test.want, schema.Decide(test.needs, test.knows, test.current, test.floor))
		})
	}
}

// A build that is admitted stays so when additive steps are applied, and a build that knows more is never refused as too old
// for a floor.
func TestDecideIsMonotonous(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		number := rapid.IntRange(0, 8)
		needs, knows, current, floor := number.Draw(t, "needs"), number.Draw(t, "knows"), number.Draw(t, "current"), number.Draw(t, "floor")
		if schema.Decide(needs, knows, current, floor) != schema.Admitted {
			return
		}
		more := number.Draw(t, "more")
		for _, verdict := range []schema.Verdict{
			schema.Decide(needs, knows, current+more, floor),
			schema.Decide(needs, knows+more, current, floor),
			schema.Decide(needs-more, knows, current, floor),
			schema.Decide(needs, knows, current, floor-more),
		} {
			if verdict != schema.Admitted {
				t.Fatalf("refused with %s", verdict)
			}
		}
	})
}

func TestCheckSaysWhatToDo(t *testing.T) {
	t.Parallel()
	build := schema.Build{Version: "0.3.0", Needs: 3, Knows: 5, RecordKnows: 2}
	require.NoError(t, schema.Check(build, schema.State{Current: 5, SystemFloor: 1, RecordFloor: 2}))
	for name, test := range map[string]struct {
		state schema.State
		code  string
		says  []string
	}{
		"no schema": {
			schema.State{},
			schema.CodeDatabaseOlder,
			[]string{"no waggle schema", "needs step 3", "WAGGLE_APPLY_SCHEMA=1"},
		},
		"old": {
			schema.State{Current: 2, SystemFloor: 1},
			schema.CodeDatabaseOlder,
			[]string{"older than this build needs", "at step 2", "0.3.0 needs step 3", "WAGGLE_APPLY_SCHEMA=1"},
		},
		"new": {
			schema.State{Current: 7, SystemFloor: 6},
			schema.CodeDatabaseNewer,
			[]string{"newer than this build understands", "floor is step 6", "knows steps up to 5", "run a build that knows step 6"},
		},
		"new records": {
			schema.State{Current: 7, SystemFloor: 1, RecordFloor: 3, QueuesAbove: []string{"orders", "mail"}},
			schema.CodeDatabaseNewer,
			[]string{"newer than this build understands", "format 3", "in orders, mail", "up to format 2", "knows format 3"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			err := schema.Check(build, test.state)
			gate, ok := err.(*schema.GateError)
			require.True(t, ok)
			require.Equal(t, test.code, gate.Code)
			require.NotContains(t, err.Error(), "\n")
			for _, part := range append(test.says, test.code+" the database is ") {
				require.Contains(t, err.Error(), part)
			}
		})
	}
}

func TestUnbrokenEndsAtTheFirstGap(t *testing.T) {
	t.Parallel()
	require.Equal(t, 0, schema.Unbroken(nil))
	require.Equal(t, 3, schema.Unbroken([]int{1, 2, 3}))
	require.Equal(t, 2, schema.Unbroken([]int{1, 2, 4, 5}))
	require.Equal(t, 0, schema.Unbroken([]int{2, 3}))
}
