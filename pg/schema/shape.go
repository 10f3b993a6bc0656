package schema

import (
	"context"
	_ "embed"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5"
)

//go:generate go test . -run TestShapesAreThoseOfTheSteps -update

// CodeShape is that of tables which are not as this build needs them.
const CodeShape = "WG0054"

var (
	//go:embed shapes.json
	shapesJSON []byte
	//go:embed shape_read.sql
	shapeReadSQL string
	//go:embed shape_keys.sql
	shapeKeysSQL string
	//go:embed shape_indexes.sql
	shapeIndexesSQL string
)

// Shape is what tables look like after some step, by their names.
type Shape map[string]*Table

// Table is one of them; all maps are by name.
type Table struct {
	Columns map[string]Column `json:"columns"`
	Keys    map[string]Key    `json:"keys,omitempty"`
	// Indexes are those that belong to no key, with their definitions.
	Indexes map[string]string `json:"indexes,omitempty"`
}

// Column is as the catalogue has it. Collation is empty for that of the type.
type Column struct {
	Type      string `json:"type"`
	Collation string `json:"collation,omitempty"`
	NotNull   bool   `json:"notNull,omitempty"`
	Default   string `json:"default,omitempty"`
	Identity  bool   `json:"identity,omitempty"`
}

// Key is a primary, unique or foreign key, or a check. Kind is the catalogue's letter for it.
type Key struct {
	Kind       string   `json:"kind"`
	Columns    []string `json:"columns"`
	Definition string   `json:"definition"`
}

// ReadShape looks at the tables of a database.
func ReadShape(ctx context.Context, q rowsQuerier) (Shape, error) {
	shape := Shape{}
	var table, name string
	var c Column
	err := each(ctx, q, shapeReadSQL, []any{&table, &name, &c.Type, &c.Collation, &c.NotNull, &c.Default, &c.Identity}, func() {
		if shape[table] == nil {
			shape[table] = &Table{Columns: map[string]Column{}, Keys: map[string]Key{}, Indexes: map[string]string{}}
		}
		shape[table].Columns[name] = c
	})
	if err != nil {
		return nil, err
	}
	var k Key
	err = each(ctx, q, shapeKeysSQL, []any{&table, &name, &k.Kind, &k.Columns, &k.Definition}, func() {
		if shape[table] != nil {
			shape[table].Keys[name] = Key{k.Kind, slices.Clone(k.Columns), k.Definition}
		}
	})
	if err != nil {
		return nil, err
	}
	var definition string
	err = each(ctx, q, shapeIndexesSQL, []any{&table, &name, &definition}, func() {
		if shape[table] != nil {
			shape[table].Indexes[name] = definition
		}
	})
	return shape, err
}

func each(ctx context.Context, q rowsQuerier, sql string, into []any, do func()) error {
	rows, err := q.Query(ctx, sql)
	if err == nil {
		_, err = pgx.ForEachRow(rows, into, func() error { do(); return nil })
	}
	if err != nil {
		return fmt.Errorf("look at the tables: %w", err)
	}
	return nil
}

// shapes are those that this build may run on, by step.
func shapes() map[int]Shape {
	var all map[int]Shape
	if err := json.Unmarshal(shapesJSON, &all); err != nil {
		panic(err) // a test writes it
	}
	return all
}

// Difference is one thing that is not as this build needs it.
type Difference struct {
	What string `json:"what"`
	// Mend are the statements that put it right.
	Mend []string `json:"mend"`
	// Harmless says that the build works without it, more slowly.
	Harmless bool `json:"harmless,omitempty"`
}

// ShapeError says that tables are not as this build needs them.
type ShapeError struct{ Differences []Difference }

func (e *ShapeError) Error() string {
	const most = 3
	var list []string
	for _, d := range e.Differences[:min(len(e.Differences), most)] {
		list = append(list, d.What)
	}
	more := ""
	if n := len(e.Differences) - most; n > 0 {
		more = fmt.Sprintf(" and %d more", n)
	}
	return fmt.Sprintf("%s the tables of waggle are not as this build needs them: %s%s; `waggle migrate check` prints the SQL that mends them",
		CodeShape, strings.Join(list, ", "), more)
}

// Script is the SQL that mends everything, for psql.
func (e *ShapeError) Script() string {
	var b strings.Builder
	b.WriteString("-- Makes the tables of waggle what this build needs. Look at it, then run it as their owner, with psql and no broker in the way.\nset lock_timeout = '2s';\n")
	for _, d := range e.Differences {
		b.WriteString("\n-- " + d.What + "\n")
		for _, statement := range d.Mend {
			b.WriteString(statement + ";\n")
		}
	}
	return b.String()
}

// CheckShape compares the tables of a database with what this build needs of them at its step. What is there besides is nobody's
// concern. The error is a *ShapeError; harmless are differences that do not keep a broker from running. A database beyond this
// build's steps is held against the last of them, but for defaults and nulls, which later steps may have changed.
func CheckShape(ctx context.Context, q interface {
	Querier
	rowsQuerier
},
) (harmless []Difference, err error) {
	current, err := Current(ctx, q)
	if err != nil {
		return nil, err
	}
	want := shapes()[min(current, BuildKnows)]
	if want == nil {
		return nil, nil // older than this build needs: the gate says so
	}
	found, err := ReadShape(ctx, q)
	if err != nil {
		return nil, err
	}
	var harmful []Difference
	for _, d := range compare(found, want, Steps(), current) {
		if d.Harmless {
			harmless = append(harmless, d)
		} else {
			harmful = append(harmful, d)
		}
	}
	if len(harmful) > 0 {
		return harmless, &ShapeError{append(harmful, harmless...)}
	}
	return harmless, nil
}

func compare(found, want Shape, steps []Step, current int) (differences []Difference) {
	for _, name := range slices.Sorted(maps.Keys(want)) {
		if found[name] == nil {
			differences = append(differences, Difference{What: "table " + name + " is missing", Mend: statementsAbout(name, steps, current)})
			continue
		}
		differences = append(differences, compareTable(name, found[name], want[name], current > BuildKnows)...)
	}
	return differences
}

// statementsAbout are those of the steps so far that name the table: they may be repeated, and know what no shape does.
func statementsAbout(table string, steps []Step, current int) (list []string) {
	for _, step := range steps {
		if step.Scope != System || step.Version > current {
			continue
		}
		for _, s := range step.Statements {
			if slices.Contains(relationsOf([]Statement{s}), table) {
				list = append(list, s.Text)
			}
		}
	}
	return list
}

func compareTable(name string, found, want *Table, lenient bool) (differences []Difference) {
	on := "alter table waggle." + ident(name) + " "
	add := func(what string, mend ...string) {
		differences = append(differences, Difference{What: what, Mend: mend})
	}
	for _, column := range slices.Sorted(maps.Keys(want.Columns)) {
		is, there := found.Columns[column]
		need, at := want.Columns[column], name+"."+column
		alter := on + "alter column " + ident(column) + " "
		if !there {
			add("column "+at+" is missing", on+"add column "+ident(column)+" "+need.declaration())
			continue
		}
		if is.Type != need.Type || is.Collation != need.Collation {
			add(fmt.Sprintf("column %s is %s and not %s", at, is.typed(), need.typed()),
				alter+"type "+need.typed()+" using "+ident(column)+"::"+need.Type)
		}
		if lenient {
			continue
		}
		if is.Identity != need.Identity {
			if need.Identity {
				add("column "+at+" does not number its rows", alter+"add generated always as identity")
			} else {
				add("column "+at+" numbers its rows", alter+"drop identity")
			}
		}
		if is.Default != need.Default {
			if need.Default == "" {
				add(fmt.Sprintf("column %s has the default %s", at, is.Default), alter+"drop default")
			} else {
				add(fmt.Sprintf("column %s has not the default %s", at, need.Default), alter+"set default "+need.Default)
			}
		}
		if is.NotNull != need.NotNull {
			if need.NotNull {
				add("column "+at+" may be null", alter+"set not null")
			} else {
				add("column "+at+" may not be null", alter+"drop not null")
			}
		}
	}
	for _, key := range slices.Sorted(maps.Keys(want.Keys)) {
		need := want.Keys[key]
		// Names and texts differ between servers and are nobody's promise; kind and columns are.
		same := func(k Key) bool { return k.Kind == need.Kind && slices.Equal(k.Columns, need.Columns) }
		if !slices.ContainsFunc(slices.Collect(maps.Values(found.Keys)), same) {
			add(fmt.Sprintf("constraint %s of %s, %s, is missing", key, name, need.Definition),
				on+"drop constraint if exists "+ident(key), on+"add constraint "+ident(key)+" "+need.Definition)
		}
	}
	for _, index := range slices.Sorted(maps.Keys(want.Indexes)) {
		if definition := want.Indexes[index]; found.Indexes[index] != definition {
			differences = append(differences, Difference{
				What: fmt.Sprintf("index %s of %s is missing or another", index, name), Harmless: !strings.Contains(definition, " UNIQUE "),
				Mend: []string{"drop index if exists waggle." + ident(index), definition},
			})
		}
	}
	return differences
}

func ident(name string) string { return pgx.Identifier{name}.Sanitize() }

func (c Column) typed() string {
	if c.Collation == "" {
		return c.Type
	}
	return c.Type + " collate " + ident(c.Collation)
}

func (c Column) declaration() string {
	text := c.typed()
	if c.Identity {
		text += " generated always as identity"
	}
	if c.Default != "" {
		text += " default " + c.Default
	}
	if c.NotNull {
		text += " not null"
	}
	return text
}
