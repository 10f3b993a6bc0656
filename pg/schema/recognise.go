package schema

import (
	"context"
	_ "embed"
	"fmt"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5"
)

// Codes of databases that are left alone.
const (
	CodeStranger    = "WG0055"
	CodeHalfApplied = "WG0056"
)

//go:embed recognise.sql
var recogniseSQL string

// StrangerError says that the schema waggle of a database is not what this program made, or only a part of it. Its text says
// what to do.
type StrangerError struct {
	Code   string
	Reason string
}

func (e *StrangerError) Error() string { return e.Code + " " + e.Reason }

// Recognise refuses a schema that another program owns, and one whose trail has gaps. The error is a *StrangerError.
func Recognise(ctx context.Context, q Querier, steps []Step) error {
	var relations []string
	var ours bool
	if err := q.QueryRow(ctx, recogniseSQL).Scan(&relations, &ours); err != nil {
		return fmt.Errorf("look at the schema: %w", err)
	}
	trail := slices.Contains(relations, "schema_step")
	switch {
	case len(relations) == 0:
		return nil
	case !trail:
		return &StrangerError{CodeStranger, fmt.Sprintf("the schema waggle of this database is not waggle's: it holds %s and no schema_step; "+
			"use another database, or rename that schema", some(relations))}
	case !ours:
		return &StrangerError{CodeStranger, "the schema waggle of this database is not waggle's: its table schema_step has other columns; " +
			"use another database, or rename that schema"}
	}
	var versions []int
	if err := q.QueryRow(ctx, readTrailSQL).Scan(&versions); err != nil {
		return fmt.Errorf("read schema trail: %w", err)
	}
	current, known := Unbroken(versions), 0
	for _, step := range steps {
		if step.Scope == System {
			known = max(known, step.Version)
		}
	}
	if i := slices.IndexFunc(versions, func(v int) bool { return v > current && v <= known }); i >= 0 {
		return &StrangerError{CodeHalfApplied, fmt.Sprintf("the schema is applied in part: step %d is recorded and step %d before it is not; "+
			"somebody has changed waggle.schema_step, or restored some tables only: restore the database as a whole", versions[i], current+1)}
	}
	if current > 1 && len(relations) == 1 {
		return &StrangerError{CodeHalfApplied, fmt.Sprintf("the schema is applied in part: steps up to %d are recorded and no table is there; "+
			"restore the database as a whole, or drop the schema to begin anew", current)}
	}
	return nil
}

// some names a few of many.
func some(names []string) string {
	const most = 5
	quoted := make([]string, 0, most)
	for _, name := range names[:min(len(names), most)] {
		quoted = append(quoted, pgx.Identifier{name}.Sanitize())
	}
	if len(names) > most {
		return strings.Join(quoted, ", ") + fmt.Sprintf(" and %d more", len(names)-most)
	}
	return strings.Join(quoted, ", ")
}
