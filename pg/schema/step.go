package schema

import (
	"cmp"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// Scope is what a step's number counts: the control tables, or the record format of one queue.
type Scope string

// The two scopes.
const (
	System Scope = "system"
	Queue  Scope = "queue"
)

// Step is one numbered change of the schema.
type Step struct {
	Scope   Scope
	Version int
	Name    string
	File    string
	// RaisesFloor says that builds which do not know the step must not run once it is in force.
	RaisesFloor bool
	Statements  []Statement
	// Down undoes the step, last change first; nil when it cannot be undone. Its statements may be repeated as well.
	Down []Statement
}

// downFolder holds the files that undo steps, under the names of those.
const downFolder = "down"

//go:embed steps
var stepFiles embed.FS

// Steps returns the steps that this build contains, in order.
func Steps() []Step {
	files, err := fs.Sub(stepFiles, "steps")
	if err != nil {
		panic(err) // the folder is embedded
	}
	steps, err := ReadSteps(files)
	if err != nil {
		panic(err) // a test reads them
	}
	return steps
}

var stepFile = regexp.MustCompile(`^(\d{4})_([a-z0-9_]+)\.sql$`)

// ReadSteps reads the steps of a folder and checks their headers and that no number of a scope is missing or there twice.
func ReadSteps(files fs.FS) ([]Step, error) {
	entries, err := fs.ReadDir(files, ".")
	if err != nil {
		return nil, fmt.Errorf("list schema steps: %w", err)
	}
	var steps []Step
	for _, entry := range entries {
		if entry.IsDir() && entry.Name() == downFolder {
			continue
		}
		text, err := fs.ReadFile(files, entry.Name())
		if err != nil {
			return nil, fmt.Errorf("read schema step: %w", err)
		}
		step, err := parseStep(entry.Name(), string(text))
		if err != nil {
			return nil, fmt.Errorf("schema step %s: %w", entry.Name(), err)
		}
		steps = append(steps, step)
	}
	if err := readDowns(files, steps); err != nil {
		return nil, err
	}
	slices.SortFunc(steps, func(a, b Step) int {
		return cmp.Or(-cmp.Compare(a.Scope, b.Scope), cmp.Compare(a.Version, b.Version))
	})
	next := map[Scope]int{System: 1, Queue: 1}
	for _, step := range steps {
		if step.Version != next[step.Scope] {
			return nil, fmt.Errorf("schema step %s: expected number %d of scope %s", step.File, next[step.Scope], step.Scope)
		}
		next[step.Scope]++
	}
	return steps, nil
}

// readDowns gives the steps what undoes them. A file that belongs to no step is a mistake.
func readDowns(files fs.FS, steps []Step) error {
	entries, err := fs.ReadDir(files, downFolder)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("list what undoes schema steps: %w", err)
	}
	for _, entry := range entries {
		name := downFolder + "/" + entry.Name()
		i := slices.IndexFunc(steps, func(s Step) bool { return s.File == entry.Name() })
		if i < 0 {
			return fmt.Errorf("%s undoes no step", name)
		}
		text, err := fs.ReadFile(files, name)
		if err != nil {
			return fmt.Errorf("read schema step: %w", err)
		}
		if steps[i].Down, err = Split(string(text)); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		if len(steps[i].Down) == 0 {
			return fmt.Errorf("%s: there is no statement in it", name)
		}
	}
	return nil
}

func parseStep(file, text string) (Step, error) {
	parts := stepFile.FindStringSubmatch(file)
	if parts == nil {
		return Step{}, errors.New("the file is not named NNNN_name.sql")
	}
	version, err := strconv.Atoi(parts[1])
	if err != nil {
		return Step{}, fmt.Errorf("parse number: %w", err)
	}
	step := Step{Version: version, Name: parts[2], File: file}
	if err := step.readHeader(text); err != nil {
		return Step{}, err
	}
	if step.Statements, err = Split(text); err != nil {
		return Step{}, err
	}
	if len(step.Statements) == 0 && step.Scope == System {
		return Step{}, errors.New("there is no statement in it")
	}
	return step, nil
}

// readHeader looks at the comment lines before the first statement.
func (s *Step) readHeader(text string) error {
	kind := ""
	for line := range strings.Lines(text) {
		comment, isComment := strings.CutPrefix(strings.TrimSpace(line), "--")
		if !isComment {
			break
		}
		name, value, _ := strings.Cut(comment, ":")
		switch strings.TrimSpace(name) {
		case "scope":
			s.Scope = Scope(strings.TrimSpace(value))
		case "kind":
			kind = strings.TrimSpace(value)
		}
	}
	if s.Scope != System && s.Scope != Queue {
		return fmt.Errorf("the header says scope %q; it has to say `-- scope: system` or `-- scope: queue`", s.Scope)
	}
	if kind != "additive" && kind != "floor" {
		return fmt.Errorf("the header says kind %q; it has to say `-- kind: additive` or `-- kind: floor`", kind)
	}
	s.RaisesFloor = kind == "floor"
	return nil
}
