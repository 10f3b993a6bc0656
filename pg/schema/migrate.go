package schema

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"go.uber.org/zap"
)

// Migration is one connection on which an operator looks at the schema and moves it. It is not safe for concurrent use; any
// number of operators and booting brokers may be at work at once.
type Migration struct {
	conn    *pgx.Conn
	options Options
}

// LiveWithin is how old, by the server's clock, the last heartbeat of a live broker may be.
const LiveWithin = 30 * time.Second

// Member is a live broker as the registry knows it.
type Member struct {
	Name        string  `json:"name"`
	Version     string  `json:"version"`
	Needs       int     `json:"needs"`
	Knows       int     `json:"knows"`
	RecordKnows int     `json:"recordKnows"`
	SeenAgo     float64 `json:"seenSecondsAgo"`
	// Blocks says that Finalize with this build's last step would have to shut the broker out.
	Blocks bool `json:"blocks"`
}

// QueueFormat is a queue that does not stand at the first record format.
type QueueFormat struct {
	Tenant      uuid.UUID `json:"tenant"`
	Name        string    `json:"name"`
	WriteFormat int       `json:"writeFormat"`
	ReadFloor   int       `json:"readFloor"`
}

// Status is where a database stands, seen by one build.
type Status struct {
	Database DatabaseStatus `json:"database"`
	Build    BuildStatus    `json:"build"`
	Brokers  []Member       `json:"brokers"`
	Queues   []QueueFormat  `json:"queues"`
}

// DatabaseStatus is what the database says. Hold is the step that Down took it to, null without one.
type DatabaseStatus struct {
	Current     int `json:"current"`
	Floor       int `json:"floor"`
	RecordFloor int `json:"recordFloor"`
	// RecordFormat is the one that queues are made with.
	RecordFormat int  `json:"recordFormat"`
	Hold         *int `json:"hold"`
}

// BuildStatus is what the build says. Verdict is empty when it may run on the database, else the code of the refusal.
type BuildStatus struct {
	Version     string  `json:"version"`
	Needs       int     `json:"needs"`
	Knows       int     `json:"knows"`
	RecordKnows int     `json:"recordKnows"`
	Verdict     Verdict `json:"verdict"`
	// Pending are the steps that Up would apply, PendingFinalize those from the first one on that raises the floor.
	Pending         []int `json:"pending"`
	PendingFinalize []int `json:"pendingFinalize"`
}

// StepStatus is a step of the build, of the database, or of both.
type StepStatus struct {
	Scope       Scope      `json:"scope"`
	Version     int        `json:"version"`
	Name        string     `json:"name"`
	RaisesFloor bool       `json:"raisesFloor"`
	Reversible  bool       `json:"reversible"`
	Known       bool       `json:"known"`
	AppliedAt   *time.Time `json:"appliedAt"`
	AppliedBy   string     `json:"appliedBy,omitempty"`
}

// BlockedError says which live brokers do not allow a move.
type BlockedError struct {
	What     string
	Blockers []Member
	// Needed is the step that the blockers do not know, or that they need and would lose.
	Needed int
	Down   bool
	// Records says that Needed is a record format.
	Records bool
	// Alive says that no broker may live, whatever it knows.
	Alive bool
}

func (e *BlockedError) Error() string {
	lines := make([]string, len(e.Blockers))
	for i, b := range e.Blockers {
		lines[i] = e.Line(b)
	}
	return e.What + " is blocked by live brokers: " + strings.Join(lines, ", ")
}

// Line describes one blocker, its name first.
func (e *BlockedError) Line(b Member) string {
	if e.Alive {
		return fmt.Sprintf("%s (version %s, seen %.0f s ago)", b.Name, b.Version, b.SeenAgo)
	}
	if e.Records {
		return fmt.Sprintf("%s (version %s, reads record format %d and not %d, seen %.0f s ago)", b.Name, b.Version, b.RecordKnows, e.Needed, b.SeenAgo)
	}
	if e.Down {
		return fmt.Sprintf("%s (version %s, needs step %d, seen %.0f s ago)", b.Name, b.Version, b.Needs, b.SeenAgo)
	}
	return fmt.Sprintf("%s (version %s, knows step %d and not %d, seen %.0f s ago)", b.Name, b.Version, b.Knows, e.Needed, b.SeenAgo)
}

// TargetError is a step that cannot be moved to. Its text says why.
type TargetError struct{ Text string }

func (e *TargetError) Error() string { return e.Text }

var (
	//go:embed migrate_brokers.sql
	migrateBrokersSQL string
	//go:embed migrate_look.sql
	migrateLookSQL string
	//go:embed migrate_database.sql
	migrateDatabaseSQL string
	//go:embed migrate_queues.sql
	migrateQueuesSQL string
	//go:embed migrate_steps.sql
	migrateStepsSQL string
	//go:embed hold_read.sql
	holdReadSQL string
	//go:embed hold_write.sql
	holdWriteSQL string
	//go:embed hold_lift.sql
	holdLiftSQL string
	//go:embed gate_raise.sql
	gateRaiseSQL string
	//go:embed gate_lower.sql
	gateLowerSQL string
	//go:embed forget_steps.sql
	forgetStepsSQL string
)

// OpenMigration connects to url, which must not lead through a transaction pooler. The error is a *UnfitError for a server
// that cannot carry waggle.
func OpenMigration(ctx context.Context, url string, options Options) (*Migration, error) {
	options.fill()
	conn, err := connect(ctx, url)
	if err != nil {
		return nil, err
	}
	if err := CheckServer(ctx, conn); err != nil {
		_ = conn.Close(context.WithoutCancel(ctx))
		return nil, err
	}
	return &Migration{conn: conn, options: options}, nil
}

// Close gives the connection back, and with it every lock.
func (m *Migration) Close(ctx context.Context) {
	_ = m.conn.Close(context.WithoutCancel(ctx))
}

// Status looks at the database with the eyes of build.
func (m *Migration) Status(ctx context.Context, build Build) (*Status, error) {
	status := &Status{
		Build: BuildStatus{
			Version: build.Version, Needs: build.Needs, Knows: build.Knows, RecordKnows: build.RecordKnows,
			Pending: []int{}, PendingFinalize: []int{},
		},
		Brokers: []Member{}, Queues: []QueueFormat{},
	}
	at, err := readPlace(ctx, m.conn, m.options.Steps)
	if err != nil {
		return nil, err
	}
	status.Database = DatabaseStatus{Current: at.current, Floor: at.floor, RecordFloor: at.recordFloor, RecordFormat: at.recordFormat, Hold: at.hold}
	state := State{Current: at.current, SystemFloor: at.floor, RecordFloor: at.recordFloor}
	var refused *GateError
	if errors.As(Check(build, state), &refused) {
		status.Build.Verdict = Verdict(refused.Code)
	}
	for _, step := range due(m.options.Steps, place{current: at.current, floor: at.floor}) {
		status.Build.Pending = append(status.Build.Pending, step.Version)
	}
	for _, step := range m.options.Steps {
		if step.Scope == System && step.Version > at.current && !slices.Contains(status.Build.Pending, step.Version) {
			status.Build.PendingFinalize = append(status.Build.PendingFinalize, step.Version)
		}
	}
	if at.current == 0 {
		return status, nil
	}
	if status.Brokers, err = m.members(ctx, m.conn); err != nil {
		return nil, err
	}
	aim := m.floorAt(m.last())
	for i := range status.Brokers {
		status.Brokers[i].Blocks = status.Brokers[i].Knows < aim
	}
	rows, err := m.conn.Query(ctx, migrateQueuesSQL)
	if err != nil {
		return nil, fmt.Errorf("read record formats: %w", err)
	}
	status.Queues, err = pgx.CollectRows(rows, pgx.RowToStructByPos[QueueFormat])
	if err != nil {
		return nil, fmt.Errorf("read record formats: %w", err)
	}
	return status, nil
}

// Versions lists the steps of the build and those that the database has besides.
func (m *Migration) Versions(ctx context.Context) ([]StepStatus, error) {
	list := make([]StepStatus, len(m.options.Steps))
	for i, step := range m.options.Steps {
		list[i] = StepStatus{
			Scope: step.Scope, Version: step.Version, Name: step.Name, RaisesFloor: step.RaisesFloor,
			Reversible: step.Down != nil, Known: true,
		}
	}
	_, hasTrail, err := look(ctx, m.conn)
	if err != nil || !hasTrail {
		return list, err
	}
	rows, err := m.conn.Query(ctx, migrateStepsSQL)
	if err != nil {
		return nil, fmt.Errorf("read schema trail: %w", err)
	}
	var applied StepStatus
	_, err = pgx.ForEachRow(rows, []any{&applied.Scope, &applied.Version, &applied.Name, &applied.AppliedAt, &applied.AppliedBy}, func() error {
		i := slices.IndexFunc(list, func(s StepStatus) bool { return s.Scope == applied.Scope && s.Version == applied.Version })
		if i < 0 {
			list = append(list, applied)
			return nil
		}
		list[i].AppliedAt, list[i].AppliedBy = applied.AppliedAt, applied.AppliedBy
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("read schema trail: %w", err)
	}
	return list, nil
}

// Up lifts a hold and applies additive steps up to target, zero for all that a boot would apply.
func (m *Migration) Up(ctx context.Context, target int) (Result, error) {
	if err := m.checkTarget(target); err != nil {
		return Result{}, err
	}
	a := m.applier()
	if err := a.takeLock(ctx); err != nil {
		return Result{}, err
	}
	defer a.releaseLock(ctx)
	at, err := readPlace(ctx, m.conn, m.options.Steps)
	if err != nil {
		return Result{}, err
	}
	if target != 0 && target < at.current {
		return Result{}, &TargetError{fmt.Sprintf("the database is at step %d already; `migrate down` goes back", at.current)}
	}
	if at.hold != nil && (target == 0 || target > *at.hold) {
		if _, err := m.conn.Exec(ctx, holdLiftSQL); err != nil {
			return Result{}, fmt.Errorf("lift hold: %w", err)
		}
		m.options.Logger.Info("hold lifted", zap.Int("step", *at.hold))
	}
	if target != 0 {
		a.options.Steps = upTo(a.options.Steps, target)
	}
	return a.applyDue(ctx)
}

// Finalized is what Finalize did. Floor is the floor of the database now, or the one that a dry run found possible.
type Finalized struct {
	Result
	Floor int
}

// Finalize applies all steps up to target, zero for the last one of this build, those that raise the floor included: it
// shuts out builds that do not know them, for good, and then makes their change. The error is a *BlockedError while such a
// build lives. With dryRun nothing is changed.
func (m *Migration) Finalize(ctx context.Context, target int, dryRun bool) (Finalized, error) {
	if err := m.checkTarget(target); err != nil {
		return Finalized{}, err
	}
	if target == 0 {
		target = m.last()
	}
	at, err := readPlace(ctx, m.conn, m.options.Steps)
	if err != nil {
		return Finalized{}, err
	}
	if at.current == 0 {
		return Finalized{}, &TargetError{"there is no waggle schema in this database; `migrate up` makes it"}
	}
	done := Finalized{Result: Result{Before: at.current, After: at.current}, Floor: at.floor}
	if dryRun {
		done.Floor = max(at.floor, m.floorAt(target))
		return done, m.blockedBy(ctx, m.conn, done.Floor)
	}
	a := m.applier()
	if err := a.takeLock(ctx); err != nil {
		return done, err
	}
	defer a.releaseLock(ctx)
	if at, err = readPlace(ctx, m.conn, m.options.Steps); err != nil {
		return done, err
	}
	done.Result = Result{Before: at.current, After: at.current}
	if at.hold != nil && *at.hold < target {
		return done, &TargetError{fmt.Sprintf("the schema is held at step %d since it was taken down; `migrate up` lifts the hold", *at.hold)}
	}
	// Before anything is applied, so that a blocked call changes nothing.
	if err := m.blockedBy(ctx, m.conn, m.floorAt(target)); err != nil {
		return done, err
	}
	for _, step := range upTo(m.options.Steps, target) {
		if step.Scope != System {
			continue
		}
		if step.RaisesFloor && step.Version > done.Floor {
			if err := m.raiseFloor(ctx, a, step.Version); err != nil {
				return done, err
			}
			done.Floor = step.Version
		}
		if step.Version <= at.current {
			continue
		}
		if err := a.apply(ctx, step); err != nil {
			return done, err
		}
		done.After = step.Version
		done.Applied = append(done.Applied, step)
	}
	return done, nil
}

// raiseFloor shuts out all builds that do not know the step. A writer of an older build that is in the middle of a
// transaction is waited for; whoever begins one after this finds the floor in it.
func (m *Migration) raiseFloor(ctx context.Context, a *applier, floor int) error {
	err := m.underGateLock(ctx, a, func(tx pgx.Tx) error {
		if err := m.blockedBy(ctx, tx, floor); err != nil {
			return err
		}
		_, err := tx.Exec(ctx, gateRaiseSQL, floor)
		return err
	})
	if err != nil {
		return fmt.Errorf("raise floor to step %d: %w", floor, err)
	}
	m.options.Logger.Info("floor raised", zap.Int("step", floor))
	return nil
}

// Down takes the schema back to target and keeps it there until Up: first no build that needs more is admitted any more,
// then the steps above target are undone, the last one first, and then the floor falls. It may be repeated when it was cut
// off. The error is a *BlockedError while a live broker needs more than target.
func (m *Migration) Down(ctx context.Context, target int) (Result, error) {
	if target == 0 {
		return Result{}, &TargetError{"`migrate down` needs --target-version"}
	}
	if err := m.checkTarget(target); err != nil {
		return Result{}, err
	}
	a := m.applier()
	if err := a.takeLock(ctx); err != nil {
		return Result{}, err
	}
	defer a.releaseLock(ctx)
	at, err := readPlace(ctx, m.conn, m.options.Steps)
	if err != nil {
		return Result{}, err
	}
	result := Result{Before: at.current, After: at.current}
	switch {
	case at.current < target:
		return result, &TargetError{fmt.Sprintf("the database is at step %d, below %d; `migrate up` goes forward", at.current, target)}
	case at.current > m.last():
		return result, &TargetError{fmt.Sprintf("the database is at step %d and this build knows steps up to %d: only a build that knows them all can undo them", at.current, m.last())}
	}
	above := slices.DeleteFunc(slices.Clone(m.options.Steps), func(s Step) bool { return s.Scope != System || s.Version <= target })
	for _, step := range above {
		if step.Down == nil {
			return result, &TargetError{fmt.Sprintf("step %d (%s) cannot be undone", step.Version, step.Name)}
		}
	}
	err = m.underGateLock(ctx, a, func(tx pgx.Tx) error {
		members, err := m.members(ctx, tx)
		if err != nil {
			return err
		}
		members = slices.DeleteFunc(members, func(b Member) bool { return b.Needs <= target })
		if len(members) > 0 {
			return &BlockedError{What: fmt.Sprintf("going down to step %d", target), Blockers: members, Down: true}
		}
		if _, err := tx.Exec(ctx, holdWriteSQL, target); err != nil {
			return fmt.Errorf("record hold: %w", err)
		}
		if _, err := tx.Exec(ctx, forgetStepsSQL, target); err != nil {
			return fmt.Errorf("forget steps: %w", err)
		}
		return nil
	})
	if err != nil {
		return result, fmt.Errorf("go down to step %d: %w", target, err)
	}
	result.After = target
	for _, step := range slices.Backward(above) {
		for _, group := range grouped(step.Down) {
			if err := a.executeGroup(ctx, downFolder+"/"+step.File, group); err != nil {
				return result, err
			}
		}
		if step.Version <= at.current {
			result.Applied = append(result.Applied, step)
		}
	}
	err = m.underGateLock(ctx, a, func(tx pgx.Tx) error {
		_, err := tx.Exec(ctx, gateLowerSQL, max(m.floorAt(target), 1))
		return err
	})
	if err != nil {
		return result, fmt.Errorf("lower floor: %w", err)
	}
	return result, nil
}

func (m *Migration) applier() *applier {
	return &applier{
		conn: m.conn, options: m.options, logger: m.options.Logger, deadline: time.Now().Add(m.options.LockPatience + m.options.StatementPatience),
	}
}

func (m *Migration) last() (last int) {
	for _, step := range m.options.Steps {
		if step.Scope == System {
			last = max(last, step.Version)
		}
	}
	return last
}

// floorAt is the floor that the steps up to target ask for.
func (m *Migration) floorAt(target int) (floor int) {
	for _, step := range m.options.Steps {
		if step.Scope == System && step.RaisesFloor && step.Version <= target {
			floor = max(floor, step.Version)
		}
	}
	return floor
}

func (m *Migration) checkTarget(target int) error {
	if last := m.last(); target < 0 || target > last {
		return &TargetError{fmt.Sprintf("this build has no step %d; it knows steps 1 to %d", target, last)}
	}
	return nil
}

func upTo(steps []Step, target int) []Step {
	return slices.DeleteFunc(slices.Clone(steps), func(s Step) bool { return s.Version > target })
}

func (m *Migration) members(ctx context.Context, q rowsQuerier) ([]Member, error) {
	rows, err := q.Query(ctx, migrateBrokersSQL, LiveWithin.Seconds())
	if err != nil {
		return nil, fmt.Errorf("read live brokers: %w", err)
	}
	members, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (b Member, err error) {
		return b, row.Scan(&b.Name, &b.Version, &b.Needs, &b.Knows, &b.RecordKnows, &b.SeenAgo)
	})
	if err != nil {
		return nil, fmt.Errorf("read live brokers: %w", err)
	}
	return members, nil
}

// blockedBy is a *BlockedError when a live broker does not know the floor.
func (m *Migration) blockedBy(ctx context.Context, q rowsQuerier, floor int) error {
	members, err := m.members(ctx, q)
	if err != nil {
		return err
	}
	members = slices.DeleteFunc(members, func(b Member) bool { return b.Knows >= floor })
	if len(members) > 0 {
		return &BlockedError{What: fmt.Sprintf("raising the floor to step %d", floor), Blockers: members, Needed: floor}
	}
	return nil
}

// place is where a database stands; all zero without a schema.
type place struct {
	current, floor, recordFloor int
	hold                        *int
	// recordFormat is the one that queues are made with.
	recordFormat int
	// registry says that brokers can have registered.
	registry bool
}

func readPlace(ctx context.Context, q Querier, steps []Step) (at place, err error) {
	if err := Recognise(ctx, q, steps); err != nil {
		return at, err
	}
	if at.current, err = Current(ctx, q); err != nil || at.current == 0 {
		return at, err
	}
	var hasGate, hasSettings bool
	if err := q.QueryRow(ctx, migrateLookSQL).Scan(&hasGate, &hasSettings, &at.registry); err != nil {
		return at, fmt.Errorf("look for gate: %w", err)
	}
	if hasGate {
		if err := q.QueryRow(ctx, migrateDatabaseSQL).Scan(&at.floor, &at.recordFloor); err != nil {
			return at, fmt.Errorf("read gate: %w", err)
		}
	}
	if hasSettings {
		if err := q.QueryRow(ctx, recordDefaultReadSQL).Scan(&at.recordFormat); err != nil {
			return at, fmt.Errorf("read record format of new queues: %w", err)
		}
		if err := q.QueryRow(ctx, holdReadSQL).Scan(&at.hold); err != nil && !errors.Is(err, pgx.ErrNoRows) {
			return at, fmt.Errorf("read hold: %w", err)
		}
	}
	return at, nil
}

type rowsQuerier interface {
	Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error)
}
