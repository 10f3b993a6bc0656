package schema_test

import (
	"testing"
	"testing/fstest"

	"github.com/stretchr/testify/require"

	"waggle/pg/schema"
)

func TestBuildConstantsMatchTheSteps(t *testing.T) {
	t.Parallel()
	last := map[schema.Scope]schema.Step{}
	floor, starts := 0, 0
	for _, step := range schema.Steps() {
		last[step.Scope] = step
		if step.Scope == schema.System && step.RaisesFloor {
			floor = step.Version
		}
		if step.Scope == schema.System && floor == 0 {
			starts = step.Version
		}
	}
	require.Equal(t, schema.BuildStarts, starts)
	require.Equal(t, schema.BuildKnows, last[schema.System].Version)
	require.GreaterOrEqual(t, schema.BuildNeeds, 1)
	require.LessOrEqual(t, schema.BuildNeeds, schema.BuildKnows)
	if floor == schema.BuildKnows {
		require.Less(t, schema.BuildNeeds, floor, "a build that adds a floor-raising step must run before it is applied")
	}
}

func folder(files map[string]string) fstest.MapFS {
	result := fstest.MapFS{}
	for name, text := range files {
		result[name] = &fstest.MapFile{Data: []byte(text)}
	}
	return result
}

const (
	additive = "-- scope: system\n-- kind: additive\n"
	raising  = "-- scope: system\n-- kind: floor\n"
)

func TestReadStepsOrdersByScopeAndNumber(t *testing.T) {
	t.Parallel()
	steps, err := schema.ReadSteps(folder(map[string]string{
		"0002_b.sql": raising + "-- why\nselect 2; select 3;",
		"0001_a.sql": additive + "select 1;",
		"0001_q.sql": "-- scope: queue\n-- kind: additive\n",
	}))
	require.NoError(t, err)
	require.Len(t, steps, 3)
	require.Equal(t, []string{"0001_a.sql", "0002_b.sql", "0001_q.sql"}, []string{steps[0].File, steps[1].File, steps[2].File})
	require.False(t, steps[0].RaisesFloor)
	require.True(t, steps[1].RaisesFloor)
	require.Len(t, steps[1].Statements, 2)
	require.Equal(t, "b", steps[1].Name)
}

func TestReadStepsRefusesWhatIsNotWellFormed(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		files map[string]string
		says  string
	}{
		"name":         {map[string]string{"1_a.sql": additive + "select 1"}, "NNNN_name.sql"},
		"gap":          {map[string]string{"0001_a.sql": additive + "select 1", "0003_c.sql": additive + "select 1"}, "expected number 2"},
		"twice":        {map[string]string{"0001_a.sql": additive + "select 1", "0001_b.sql": additive + "select 1"}, "expected number 2"},
		"no scope":     {map[string]string{"0001_a.sql": "-- kind: additive\nselect 1"}, "scope"},
		"no kind":      {map[string]string{"0001_a.sql": "-- scope: system\nselect 1"}, "kind"},
		"late header":  {map[string]string{"0001_a.sql": "select 1;\n" + additive}, "scope"},
		"no statement": {map[string]string{"0001_a.sql": additive}, "no statement"},
		"not closed":   {map[string]string{"0001_a.sql": additive + "select '"}, "line 3"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := schema.ReadSteps(folder(test.files))
			require.ErrorContains(t, err, test.says)
		})
	}
}
