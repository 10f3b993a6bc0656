package schema

import (
	"context"
	"fmt"
	"strings"
)

// Script is the SQL that Up would run, for a role that may do more than brokers': `waggle migrate up --print`. It may be run
// again. The result is empty when nothing is due.
func (m *Migration) Script(ctx context.Context, target int) (string, error) {
	if err := m.checkTarget(target); err != nil {
		return "", err
	}
	at, err := readPlace(ctx, m.conn, m.options.Steps)
	if err != nil {
		return "", err
	}
	hasSchema, hasTrail, err := look(ctx, m.conn)
	if err != nil {
		return "", err
	}
	steps := m.options.Steps
	if target != 0 {
		steps = upTo(steps, target)
	}
	steps = due(steps, place{current: at.current, floor: at.floor})
	if len(steps) == 0 && at.hold == nil {
		return "", nil
	}
	var b strings.Builder
	fmt.Fprintf(&b, "-- The schema steps of waggle %s that this database lacks. It is at step %d.\n", m.options.Build, at.current)
	b.WriteString(`-- Run it with psql as a role that may make the schema; each statement is a transaction of its own, and may be repeated.
-- Brokers need nothing but this afterwards:
--   grant usage on schema waggle to BROKERS;
--   grant select, insert, update, delete, truncate on all tables in schema waggle to BROKERS;
--   grant usage on all sequences in schema waggle to BROKERS;
\set ON_ERROR_STOP on
set lock_timeout = '150ms';
set statement_timeout = 0;
`)
	statement := func(text string) { b.WriteString("\n" + text + ";\n") }
	if !hasSchema {
		statement("create schema if not exists waggle")
	}
	if !hasTrail {
		statement(strings.TrimRight(createTrailSQL, "\n"))
	}
	if at.hold != nil {
		statement("delete from waggle.setting where name = 'schema_hold'")
	}
	for _, step := range steps {
		fmt.Fprintf(&b, "\n-- %s\n", step.File)
		for _, group := range grouped(step.Statements) {
			if len(group) == 1 {
				statement(group[0].Text)
				continue
			}
			statement("begin")
			for _, s := range group {
				statement(s.Text)
			}
			statement("commit")
		}
		statement(fmt.Sprintf("insert into waggle.schema_step (scope, version, name, build) values (%s, %d, %s, %s) on conflict do nothing",
			literal(string(step.Scope)), step.Version, literal(step.Name), literal(m.options.Build)))
	}
	return b.String(), nil
}

func literal(text string) string { return "'" + strings.ReplaceAll(text, "'", "''") + "'" }

// Check compares the tables with what this build needs; see CheckShape.
func (m *Migration) Check(ctx context.Context) ([]Difference, error) {
	if err := Recognise(ctx, m.conn, m.options.Steps); err != nil {
		return nil, err
	}
	harmless, err := CheckShape(ctx, m.conn)
	return harmless, err
}
