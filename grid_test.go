package main_test

import (
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"waggle/mesh"
	"waggle/pg/schema"
)

var update = flag.Bool("update", false, "write the grids of the upgrade guide instead of comparing them")

const upgradeGuide = "docs/upgrades.md"

// The grids of the upgrade guide are what the functions say that decide when brokers run.
func TestTheGridsOfTheUpgradeGuide(t *testing.T) {
	for name, grid := range map[string]string{"builds": buildGrid(), "frames": frameGrid(), "records": recordGrid(), "releases": releaseGrid()} {
		t.Run(name, func(t *testing.T) {
			text := readFile(t, upgradeGuide)
			begin, end := "<!-- grid: "+name+" -->\n", "<!-- end of grid -->\n"
			before, rest, found := strings.Cut(text, begin)
			require.True(t, found, begin)
			written, after, found := strings.Cut(rest, end)
			require.True(t, found, end)
			if *update {
				require.NoError(t, os.WriteFile(upgradeGuide, []byte(before+begin+grid+end+after), 0o644))
				return
			}
			require.Equal(t, grid, written, "go test . -run TestTheGridsOfTheUpgradeGuide -update writes them anew")
		})
	}
}

func TestTheLastReleaseIsThisBuild(t *testing.T) {
	t.Parallel()
	last := schema.Releases[len(schema.Releases)-1]
	version := strings.TrimSpace(readFile(t, "version.txt"))
	require.Equal(t, schema.Release{Build: schema.ThisBuild(version), FrameMin: mesh.FrameMin, FrameMax: mesh.FrameMax}, last)
	for i, release := range schema.Releases[1:] {
		before := schema.Releases[i]
		require.LessOrEqual(t, release.Needs, before.Knows+additiveAfter(before.Knows), "%s starts on what a boot of it makes of the database of %s", release.Version, before.Version)
		_, common := mesh.VersionFor(frames(release), frames(before))
		require.True(t, common, "%s and %s speak to each other", release.Version, before.Version)
	}
}

// additiveAfter is how many steps a boot applies to a database that stands at step.
func additiveAfter(step int) (count int) {
	for _, next := range schema.Steps() {
		if next.Scope != schema.System || next.Version <= step {
			continue
		}
		if next.RaisesFloor {
			break
		}
		count++
	}
	return count
}

// lastFloor is the highest step up to step that raises the floor.
func lastFloor(step int) int {
	floor := 1
	for _, s := range schema.Steps() {
		if s.Scope == schema.System && s.RaisesFloor && s.Version <= step {
			floor = s.Version
		}
	}
	return floor
}

func frames(r schema.Release) mesh.FrameRange {
	return mesh.FrameRange{Min: r.FrameMin, Max: r.FrameMax}
}

type database struct {
	name  string
	state schema.State
}

// databases are the places where releases leave a database: started, finalized, and with records of their last format.
func databases() (list []database) {
	before := schema.Release{}
	for _, r := range schema.Releases {
		booted := before.Knows + additiveAfter(before.Knows)
		if before.Knows == 0 {
			booted = r.Knows
		}
		list = append(list, database{r.Version + " started", schema.State{Current: booted, SystemFloor: lastFloor(before.Knows), RecordFloor: max(before.RecordKnows, 1)}})
		if floor := lastFloor(r.Knows); floor > lastFloor(before.Knows) {
			list = append(list, database{r.Version + " finalized", schema.State{Current: r.Knows, SystemFloor: floor, RecordFloor: max(before.RecordKnows, 1)}})
		}
		if before.RecordKnows > 0 && r.RecordKnows > before.RecordKnows {
			list = append(list, database{fmt.Sprintf("a queue of record format %d", r.RecordKnows), schema.State{Current: booted, SystemFloor: lastFloor(before.Knows), RecordFloor: r.RecordKnows}})
		}
		before = r
	}
	return list
}

func buildGrid() string {
	head, line := "| Build |", "|---|"
	for _, d := range databases() {
		head += fmt.Sprintf(" %s: step %d, floor %d, record floor %d |", d.name, d.state.Current, d.state.SystemFloor, d.state.RecordFloor)
		line += "---|"
	}
	grid := head + "\n" + line + "\n"
	for _, r := range schema.Releases {
		grid += "| " + r.Version + " |"
		for _, d := range databases() {
			grid += " " + verdict(r, d.state) + " |"
		}
		grid += "\n"
	}
	return grid
}

func verdict(r schema.Release, state schema.State) string {
	err := schema.Check(r.Build, state)
	if err == nil {
		return "runs"
	}
	code := strings.Fields(err.Error())[0]
	state.Current += additiveAfter(state.Current)
	if schema.Check(r.Build, state) == nil {
		return "runs: its start applies what is missing; without the apply " + code
	}
	return code
}

func frameGrid() string {
	type end struct {
		name       string
		FrameRange mesh.FrameRange
	}
	var ends []end
	for _, r := range schema.Releases {
		ends = append(ends, end{r.Version, frames(r)})
	}
	ends = append(ends, end{"any, `--mesh-frame-max=1`", mesh.FrameRange{Min: 1, Max: 1}})
	head, line := "| From, to |", "|---|"
	for _, to := range ends {
		head += " " + to.name + " |"
		line += "---|"
	}
	grid := head + "\n" + line + "\n"
	for _, from := range ends {
		grid += "| " + from.name + " |"
		for _, to := range ends {
			version, common := mesh.VersionFor(from.FrameRange, to.FrameRange)
			if common {
				grid += fmt.Sprintf(" %d |", version)
			} else {
				grid += " none |"
			}
		}
		grid += "\n"
	}
	return grid
}

func recordGrid() string {
	head, line := "| Build |", "|---|"
	highest := schema.Releases[len(schema.Releases)-1].RecordKnows
	for format := 1; format <= highest; format++ {
		head += fmt.Sprintf(" format %d |", format)
		line += "---|"
	}
	grid := head + "\n" + line + "\n"
	for _, r := range schema.Releases {
		grid += "| " + r.Version + " |"
		for format := 1; format <= highest; format++ {
			if schema.Decide(schema.RecordNeeds, r.RecordKnows, schema.RecordNeeds, format) == schema.Admitted {
				grid += " reads and writes |"
			} else {
				grid += " " + schema.CodeDatabaseNewer + " |"
			}
		}
		grid += "\n"
	}
	return grid
}

func releaseGrid() string {
	grid := "| Release | Needs step | Knows step | Record formats | Frames | PostgreSQL |\n|---|---|---|---|---|---|\n"
	for _, r := range schema.Releases {
		grid += fmt.Sprintf("| %s | %d | %d | %s | %s | %d and later |\n", r.Version, r.Needs, r.Knows,
			span(schema.RecordNeeds, r.RecordKnows), span(int(r.FrameMin), int(r.FrameMax)), schema.MinServer/10000)
	}
	return grid
}

func span(from, to int) string {
	if from == to {
		return fmt.Sprint(from)
	}
	return fmt.Sprintf("%d to %d", from, to)
}
