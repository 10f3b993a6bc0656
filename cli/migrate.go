package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/google/uuid"

	"waggle/pg/schema"
)

// MigrateCmd groups the commands about the schema. They work on the database itself, whether brokers run or not.
type MigrateCmd struct {
	Status   MigrateStatusCmd   `cmd:"" help:"Show where the database, this build and every live broker stand."`
	Versions MigrateVersionsCmd `cmd:"" help:"List the steps of the schema, and which of them were applied."`
	Up       MigrateUpCmd       `cmd:"" help:"Apply the steps that older builds can live with, as a boot does, and lift a hold."`
	Finalize MigrateFinalizeCmd `cmd:"" help:"Finish an upgrade: shut out builds that do not know the last step, and apply what waited for that."`
	Down     MigrateDownCmd     `cmd:"" help:"Take the schema back to an earlier step, and hold it there until up."`

	Check       MigrateCheckCmd       `cmd:"" help:"Compare the tables with what this build needs, and print the SQL that mends them."`
	Queue       MigrateQueueCmd       `cmd:"" help:"Look at the format of stored records, and move queues to another."`
	NewIdentity MigrateNewIdentityCmd `cmd:"" name:"new-identity" help:"Make a physical copy of a database another installation. A restored dump needs it not."`
}

// Migrator is the flags and the connection of all of them.
type Migrator struct {
	Database
	Output
}

// Target chooses a step.
type Target struct {
	TargetVersion int `name:"target-version" help:"Step to go to; default the last one possible."`
}

func (m *Migrator) open(ctx context.Context, s *Session) (*schema.Migration, error) {
	address, err := m.direct()
	if err != nil {
		return nil, err
	}
	opened, err := schema.OpenMigration(ctx, address, schema.Options{Build: s.Version, Logger: newLogger(s.Stderr, "info")})
	if err != nil {
		return nil, databaseError(err)
	}
	return opened, nil
}

// MigrateStatusCmd shows where everybody stands.
type MigrateStatusCmd struct{ Migrator }

// Run implements the command.
func (c *MigrateStatusCmd) Run(ctx context.Context, s *Session) error {
	m, err := c.open(ctx, s)
	if err != nil {
		return err
	}
	defer m.Close(ctx)
	status, err := m.Status(ctx, schema.ThisBuild(s.Version))
	if err != nil {
		return databaseError(err)
	}
	return c.print(s.Stdout, status, func(w io.Writer) { writeStatus(w, status) })
}

func writeStatus(w io.Writer, status *schema.Status) {
	d, b := status.Database, status.Build
	at := fmt.Sprintf("step %d, floor %d, record floor %d, new queues write record format %d", d.Current, d.Floor, d.RecordFloor, d.RecordFormat)
	if d.Current == 0 {
		at = "no waggle schema"
	}
	rows := [][]string{
		{"database", at},
		{"build", fmt.Sprintf("%s, needs step %d, knows step %d, knows record format %d", b.Version, b.Needs, b.Knows, b.RecordKnows)},
	}
	if d.Hold != nil {
		rows = append(rows, []string{"hold", fmt.Sprintf("at step %d, until `waggle migrate up`", *d.Hold)})
	}
	switch b.Verdict {
	case schema.Admitted:
		rows = append(rows, []string{"gate", "open: this build runs on this database"})
	case schema.Older:
		rows = append(rows, []string{"gate", string(b.Verdict) + ": the database is older than this build needs"})
	case schema.Newer:
		rows = append(rows, []string{"gate", string(b.Verdict) + ": the database is newer than this build understands"})
	}
	if len(b.Pending) > 0 {
		rows = append(rows, []string{"pending", fmt.Sprintf("steps %s, which `waggle migrate up` or a boot applies", numbers(b.Pending))})
	}
	if len(b.PendingFinalize) > 0 {
		rows = append(rows, []string{"to finalize", fmt.Sprintf("steps %s, which `waggle migrate finalize` applies", numbers(b.PendingFinalize))})
	}
	table(w, rows)
	if len(status.Brokers) > 0 {
		fmt.Fprintln(w)
		rows = [][]string{{"BROKER", "VERSION", "NEEDS", "KNOWS", "RECORDS", "SEEN", "BLOCKS"}}
		for _, m := range status.Brokers {
			blocks := "no"
			if m.Blocks {
				blocks = "finalize"
			}
			rows = append(rows, []string{
				m.Name, m.Version, number(int64(m.Needs)), number(int64(m.Knows)), number(int64(m.RecordKnows)), fmt.Sprintf("%.0f s ago", m.SeenAgo), blocks,
			})
		}
		table(w, rows)
	}
	if len(status.Queues) > 0 {
		fmt.Fprintln(w)
		writeQueues(w, status.Queues)
	}
}

func numbers(list []int) string {
	return strings.Trim(strings.ReplaceAll(fmt.Sprint(list), " ", ", "), "[]")
}

// MigrateVersionsCmd lists steps.
type MigrateVersionsCmd struct{ Migrator }

// Run implements the command.
func (c *MigrateVersionsCmd) Run(ctx context.Context, s *Session) error {
	m, err := c.open(ctx, s)
	if err != nil {
		return err
	}
	defer m.Close(ctx)
	list, err := m.Versions(ctx)
	if err != nil {
		return databaseError(err)
	}
	return c.print(s.Stdout, list, func(w io.Writer) {
		rows := [][]string{{"SCOPE", "STEP", "NAME", "KIND", "DOWN", "APPLIED", "BY"}}
		for _, step := range list {
			kind, down, applied := "additive", "no", "-"
			switch {
			case !step.Known:
				kind, down = "unknown to this build", "-"
			case step.RaisesFloor:
				kind = "raises the floor"
			}
			if step.Reversible {
				down = "yes"
			}
			if step.AppliedAt != nil {
				applied = moment(*step.AppliedAt)
			}
			rows = append(rows, []string{string(step.Scope), number(int64(step.Version)), step.Name, kind, down, applied, orDash(step.AppliedBy)})
		}
		table(w, rows)
	})
}

// moved is the answer of the commands that move the schema.
type moved struct {
	Before  int   `json:"before"`
	After   int   `json:"after"`
	Applied []int `json:"applied"`
	Floor   *int  `json:"floor,omitempty"`
}

func movedBy(result schema.Result) moved {
	m := moved{Before: result.Before, After: result.After, Applied: []int{}}
	for _, step := range result.Applied {
		m.Applied = append(m.Applied, step.Version)
	}
	return m
}

// MigrateUpCmd applies additive steps.
type MigrateUpCmd struct {
	Migrator
	Target
	Print bool `help:"Change nothing; print the SQL, for a role that may do more than brokers'."`
}

// Run implements the command.
func (c *MigrateUpCmd) Run(ctx context.Context, s *Session) error {
	m, err := c.open(ctx, s)
	if err != nil {
		return err
	}
	defer m.Close(ctx)
	if c.Print {
		script, err := m.Script(ctx, c.TargetVersion)
		if err != nil {
			return databaseError(err)
		}
		if script == "" {
			script = "-- nothing is to be applied\n"
		}
		_, err = io.WriteString(s.Stdout, script)
		return err
	}
	result, err := m.Up(ctx, c.TargetVersion)
	if err != nil {
		return databaseError(err)
	}
	status, err := m.Status(ctx, schema.ThisBuild(s.Version))
	if err != nil {
		return databaseError(err)
	}
	return c.print(s.Stdout, movedBy(result), func(w io.Writer) {
		if len(result.Applied) == 0 {
			fmt.Fprintf(w, "nothing to apply: the database is at step %d\n", result.After)
		} else {
			fmt.Fprintf(w, "the database is at step %d, it was at step %d\n", result.After, result.Before)
		}
		if waiting := status.Build.PendingFinalize; len(waiting) > 0 {
			fmt.Fprintf(w, "steps %s wait for `waggle migrate finalize`\n", numbers(waiting))
		}
	})
}

// MigrateFinalizeCmd raises the floor.
type MigrateFinalizeCmd struct {
	Migrator
	Target
	DryRun       bool `help:"Change nothing; print which live brokers block it."`
	RecordFormat int  `help:"Choose the record format of queues that are made from now on."`
}

// Run implements the command.
func (c *MigrateFinalizeCmd) Run(ctx context.Context, s *Session) error {
	m, err := c.open(ctx, s)
	if err != nil {
		return err
	}
	defer m.Close(ctx)
	done, err := m.Finalize(ctx, c.TargetVersion, c.DryRun)
	if err != nil {
		return c.blocked(s, err)
	}
	if c.RecordFormat != 0 {
		if err := m.SetRecordFormat(ctx, c.RecordFormat, c.DryRun); err != nil {
			return c.blocked(s, err)
		}
	}
	answer := movedBy(done.Result)
	answer.Floor = &done.Floor
	return c.print(s.Stdout, answer, func(w io.Writer) {
		switch {
		case c.DryRun:
			fmt.Fprintf(w, "nothing blocks a floor at step %d\n", done.Floor)
		case len(done.Applied) == 0:
			fmt.Fprintf(w, "nothing to finalize: the database is at step %d, floor %d\n", done.After, done.Floor)
		default:
			fmt.Fprintf(w, "the database is at step %d, floor %d; builds that do not know step %d are shut out\n", done.After, done.Floor, done.Floor)
		}
	})
}

// blocked prints each blocker on a line of its own, its name first.
func (m *Migrator) blocked(s *Session, err error) error {
	var blocked *schema.BlockedError
	if !errors.As(err, &blocked) {
		return databaseError(err)
	}
	printed := m.print(s.Stdout, struct {
		Blockers []schema.Member `json:"blockers"`
	}{blocked.Blockers}, func(w io.Writer) {
		for _, b := range blocked.Blockers {
			fmt.Fprintln(w, blocked.Line(b))
		}
	})
	if printed != nil {
		return printed
	}
	remedy := "upgrade or stop"
	if blocked.Alive {
		remedy = "stop"
	}
	return Fail(ExitRefused, fmt.Errorf("%s is blocked by %d live brokers; %s them", blocked.What, len(blocked.Blockers), remedy))
}

// MigrateDownCmd undoes steps.
type MigrateDownCmd struct {
	Migrator
	TargetVersion int `name:"target-version" required:"" help:"Step to go back to."`
}

// Run implements the command.
func (c *MigrateDownCmd) Run(ctx context.Context, s *Session) error {
	m, err := c.open(ctx, s)
	if err != nil {
		return err
	}
	defer m.Close(ctx)
	result, err := m.Down(ctx, c.TargetVersion)
	if err != nil {
		return c.blocked(s, err)
	}
	status, err := m.Status(ctx, schema.ThisBuild(s.Version))
	if err != nil {
		return databaseError(err)
	}
	return c.print(s.Stdout, movedBy(result), func(w io.Writer) {
		fmt.Fprintf(w, "the database is at step %d and held there until `waggle migrate up`; it was at step %d\n", result.After, result.Before)
		if floor := status.Database.RecordFloor; floor > schema.RecordNeeds {
			fmt.Fprintf(w, "builds that do not read record format %d are still kept out: see `waggle migrate queue status`\n", floor)
		}
	})
}

// MigrateNewIdentityCmd makes a clone of a server a cluster of its own.
type MigrateNewIdentityCmd struct{ Migrator }

// Run implements the command.
func (c *MigrateNewIdentityCmd) Run(ctx context.Context, s *Session) error {
	m, err := c.open(ctx, s)
	if err != nil {
		return err
	}
	defer m.Close(ctx)
	before, after, err := m.NewIdentity(ctx)
	if err != nil {
		return c.blocked(s, err)
	}
	return c.print(s.Stdout, struct {
		Before string `json:"before"`
		After  string `json:"after"`
	}{before.String(), after.String()}, func(w io.Writer) {
		fmt.Fprintf(w, "the cluster of this database is %s now, it was %s; brokers started on it do not meet those of the original\n", after, before)
	})
}

// MigrateQueueCmd groups the commands about the format of stored records.
type MigrateQueueCmd struct {
	Status MigrateQueueStatusCmd `cmd:"" help:"Show the record formats of queues that have left the first one."`
	Up     MigrateQueueUpCmd     `cmd:"" help:"Let queues write a later record format; builds that cannot read it are shut out."`
	Down   MigrateQueueDownCmd   `cmd:"" help:"Let queues write an earlier record format; the leader rewrites what is stored."`
}

// Chosen chooses queues.
type Chosen struct {
	Queues []string   `arg:"" optional:"" name:"queue" help:"Queues to move."`
	All    bool       `help:"Every queue of the tenant, or of all tenants."`
	Tenant *uuid.UUID `help:"Tenant of the queues; default the one of calls without a tenant, with --all every tenant."`
}

// defaultTenant owns the queues of calls that name no tenant.
var defaultTenant = uuid.MustParse("00000000-0000-0000-0000-000000000001")

func (c *Chosen) queues() (schema.Queues, error) {
	switch {
	case c.All == (len(c.Queues) > 0):
		return schema.Queues{}, Fail(ExitUsage, errors.New("name queues, or say --all"))
	case c.All:
		return schema.Queues{Tenant: c.Tenant}, nil
	case c.Tenant == nil:
		return schema.Queues{Tenant: &defaultTenant, Names: c.Queues}, nil
	default:
		return schema.Queues{Tenant: c.Tenant, Names: c.Queues}, nil
	}
}

// MigrateQueueStatusCmd shows the record formats of queues.
type MigrateQueueStatusCmd struct{ Migrator }

// Run implements the command.
func (c *MigrateQueueStatusCmd) Run(ctx context.Context, s *Session) error {
	m, err := c.open(ctx, s)
	if err != nil {
		return err
	}
	defer m.Close(ctx)
	status, err := m.Status(ctx, schema.ThisBuild(s.Version))
	if err != nil {
		return databaseError(err)
	}
	return c.print(s.Stdout, struct {
		NewQueues int                  `json:"newQueues"`
		Queues    []schema.QueueFormat `json:"queues"`
	}{status.Database.RecordFormat, status.Queues}, func(w io.Writer) {
		fmt.Fprintf(w, "new queues write record format %d; queues that are not listed are at 1\n", status.Database.RecordFormat)
		writeQueues(w, status.Queues)
	})
}

func writeQueues(w io.Writer, queues []schema.QueueFormat) {
	if len(queues) == 0 {
		return
	}
	rows := [][]string{{"QUEUE", "TENANT", "WRITES FORMAT", "READ FLOOR", ""}}
	for _, q := range queues {
		note := ""
		if q.ReadFloor > q.WriteFormat {
			note = "the leader is rewriting it"
		}
		rows = append(rows, []string{q.Name, q.Tenant.String(), number(int64(q.WriteFormat)), number(int64(q.ReadFloor)), note})
	}
	table(w, rows)
}

// MigrateQueueUpCmd moves queues to a later record format.
type MigrateQueueUpCmd struct {
	Migrator
	Chosen
	Format int `name:"target-version" help:"Record format; default the last one of this build."`
}

// Run implements the command.
func (c *MigrateQueueUpCmd) Run(ctx context.Context, s *Session) error {
	format := c.Format
	if format == 0 {
		format = schema.RecordKnows
	}
	return c.move(ctx, s, &c.Chosen, format, (*schema.Migration).RecordsUp, "write record format %d from now on; what is stored stays as it is\n")
}

// MigrateQueueDownCmd moves queues back to an earlier record format.
type MigrateQueueDownCmd struct {
	Migrator
	Chosen
	Format int `name:"target-version" default:"1" help:"Record format."`
}

// Run implements the command.
func (c *MigrateQueueDownCmd) Run(ctx context.Context, s *Session) error {
	return c.move(ctx, s, &c.Chosen, c.Format, (*schema.Migration).RecordsDown,
		"write record format %d from now on; the leader rewrites what is stored, `waggle migrate queue status` shows when it is done\n")
}

func (m *Migrator) move(ctx context.Context, s *Session, chosen *Chosen, format int,
	by func(*schema.Migration, context.Context, schema.Queues, int) ([]schema.QueueFormat, error), said string,
) error {
	queues, err := chosen.queues()
	if err != nil {
		return err
	}
	opened, err := m.open(ctx, s)
	if err != nil {
		return err
	}
	defer opened.Close(ctx)
	moved, err := by(opened, ctx, queues, format)
	if err != nil {
		return m.blocked(s, err)
	}
	return m.print(s.Stdout, moved, func(w io.Writer) {
		if len(moved) == 0 {
			fmt.Fprintln(w, "nothing to move")
			return
		}
		fmt.Fprintf(w, "%d queues "+said, len(moved), format)
		writeQueues(w, moved)
	})
}

// MigrateCheckCmd compares the tables with what this build needs.
type MigrateCheckCmd struct{ Migrator }

// Run implements the command.
func (c *MigrateCheckCmd) Run(ctx context.Context, s *Session) error {
	m, err := c.open(ctx, s)
	if err != nil {
		return err
	}
	defer m.Close(ctx)
	differences, err := m.Check(ctx)
	var wrong *schema.ShapeError
	if errors.As(err, &wrong) {
		differences = wrong.Differences
	} else if err != nil {
		return databaseError(err)
	}
	if differences == nil {
		differences = []schema.Difference{}
	}
	printed := c.print(s.Stdout, struct {
		Differences []schema.Difference `json:"differences"`
	}{differences}, func(w io.Writer) {
		if len(differences) == 0 {
			fmt.Fprintln(w, "-- the tables are as this build needs them")
			return
		}
		fmt.Fprint(w, (&schema.ShapeError{Differences: differences}).Script())
	})
	if printed != nil || wrong == nil {
		return printed
	}
	return Fail(ExitGate, wrong)
}
