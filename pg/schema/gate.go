package schema

import (
	"fmt"
	"strings"
)

// What this build needs and knows. BuildKnows is the number of its last system step; a test holds the two together.
const (
	// BuildNeeds is the lowest step that this build's SQL runs on.
	BuildNeeds = 10
	// BuildStarts is the step that a start of this build brings an empty database to: the last one before the first that is
	// left to finalize.
	BuildStarts = 10
	// BuildKnows is the highest step that this build contains.
	BuildKnows = 11
	// RecordNeeds is the lowest record format that this build can read.
	RecordNeeds = 1
	// RecordKnows is the highest record format that this build can read and write.
	RecordKnows = 2
)

// Codes of the operator errors that the gate gives.
const (
	CodeDatabaseOlder = "WG0022"
	CodeDatabaseNewer = "WG0023"
)

// Build is what a build says of itself at the gate.
type Build struct {
	Version     string
	Needs       int
	Knows       int
	RecordKnows int
}

// ThisBuild is the running binary; only its version text comes from outside.
func ThisBuild(version string) Build {
	return Build{Version: version, Needs: BuildNeeds, Knows: BuildKnows, RecordKnows: RecordKnows}
}

// State is what a database says of itself at the gate.
type State struct {
	// Current is the last step of the unbroken run that was applied; zero when there is no waggle schema.
	Current int
	// SystemFloor is the lowest `knows` that may run.
	SystemFloor int
	// RecordFloor is the lowest `knows` for records: the highest read floor of any queue.
	RecordFloor int
	// QueuesAbove names some of the queues whose read floor the asking build does not know, for the message.
	QueuesAbove []string
}

// GateError says that a build must not run on a database. Its text says what to do.
type GateError struct {
	Code  string
	Scope Scope
	Build Build
	State State
}

// Verdict is what the gate decides about four numbers.
type Verdict string

// The verdicts: run, or one of the two codes.
const (
	Admitted Verdict = ""
	Older    Verdict = CodeDatabaseOlder
	Newer    Verdict = CodeDatabaseNewer
)

// Decide is the gate of one scope. A database that is older than what the build needs lacks tables that its SQL names; a
// floor above what the build knows says that its SQL would do harm. Everything between is fine, in both directions: that is
// what lets two versions share a database.
func Decide(needs, knows, current, floor int) Verdict {
	switch {
	case current < needs:
		return Older
	case floor > knows:
		return Newer
	default:
		return Admitted
	}
}

// Check runs the whole gate: the system scope, then records. The error is nil or a *GateError.
func Check(build Build, state State) error {
	if verdict := Decide(build.Needs, build.Knows, state.Current, state.SystemFloor); verdict != Admitted {
		return &GateError{Code: string(verdict), Scope: System, Build: build, State: state}
	}
	// Records have no lower end: a build reads every format from the first one on.
	if verdict := Decide(RecordNeeds, build.RecordKnows, RecordNeeds, state.RecordFloor); verdict != Admitted {
		return &GateError{Code: string(verdict), Scope: Queue, Build: build, State: state}
	}
	return nil
}

// Error is one line that begins with the code.
func (e *GateError) Error() string {
	switch {
	case e.Code == CodeDatabaseOlder && e.State.Current == 0:
		return fmt.Sprintf("%s the database is older than this build needs: it has no waggle schema yet and waggle %s needs step %d; "+
			"start one broker with WAGGLE_APPLY_SCHEMA=1 (the default)",
			e.Code, e.Build.Version, e.Build.Needs)
	case e.Code == CodeDatabaseOlder:
		return fmt.Sprintf("%s the database is older than this build needs: it is at step %d and waggle %s needs step %d; "+
			"start one broker of this build with WAGGLE_APPLY_SCHEMA=1 (the default), or run an earlier build",
			e.Code, e.State.Current, e.Build.Version, e.Build.Needs)
	case e.Scope == Queue:
		return fmt.Sprintf("%s the database is newer than this build understands: records of format %d are in use%s and waggle %s reads "+
			"up to format %d; run a build that knows format %d",
			e.Code, e.State.RecordFloor, e.queues(), e.Build.Version, e.Build.RecordKnows, e.State.RecordFloor)
	default:
		return fmt.Sprintf("%s the database is newer than this build understands: its floor is step %d and waggle %s knows steps up to %d; "+
			"run a build that knows step %d",
			e.Code, e.State.SystemFloor, e.Build.Version, e.Build.Knows, e.State.SystemFloor)
	}
}

func (e *GateError) queues() string {
	if len(e.State.QueuesAbove) == 0 {
		return ""
	}
	return " in " + strings.Join(e.State.QueuesAbove, ", ")
}

// Unbroken returns the end of the run 1, 2, 3, … in a sorted list of versions: the current version of a database whose
// trail holds them.
func Unbroken(versions []int) int {
	current := 0
	for _, version := range versions {
		if version == current+1 {
			current = version
		}
	}
	return current
}
