package schema

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"go.uber.org/zap"
)

// Product is the first half of every two-integer advisory lock key that waggle takes ("wagg").
const Product int32 = 0x77616767

// LockKey is the second half for the apply.
func LockKey() int32 {
	h := fnv.New32a()
	h.Write([]byte("waggle"))
	return int32(h.Sum32())
}

// Options of an apply.
type Options struct {
	// Build is recorded in the trail.
	Build  string
	Logger *zap.Logger
	// LockPatience bounds the wait for another apply. Default two minutes.
	LockPatience time.Duration
	// StatementPatience bounds the tries of all statements together. Default three minutes.
	StatementPatience time.Duration
	// Steps replace those of this build, for tests.
	Steps []Step

	gatePatience time.Duration
}

func (o *Options) fill() {
	if o.Logger == nil {
		o.Logger = zap.NewNop()
	}
	if o.LockPatience == 0 {
		o.LockPatience = 2 * time.Minute
	}
	if o.StatementPatience == 0 {
		o.StatementPatience = 3 * time.Minute
	}
	if o.Steps == nil {
		o.Steps = Steps()
	}
	if o.gatePatience == 0 {
		o.gatePatience = gatePatience
	}
}

// Result says what an apply found and did.
type Result struct {
	Before  int
	After   int
	Applied []Step
}

// BusyError says that another session holds the apply's lock.
type BusyError struct {
	Waited time.Duration
	Holder string
}

func (e *BusyError) Error() string {
	return fmt.Sprintf("another session has been applying the schema for more than %s: %s", e.Waited.Round(time.Second), e.Holder)
}

// StatementError says which statement of which step failed, and where it stands.
type StatementError struct {
	File      string
	Statement Statement
	Err       error
}

func (e *StatementError) Error() string {
	return fmt.Sprintf("schema step %s, statement at line %d (%s): %v", e.File, e.Statement.Line, e.Statement.short(), e.Err)
}

func (e *StatementError) Unwrap() error { return e.Err }

// short is the statement on one line, cut where it gets long.
func (s Statement) short() string {
	const most = 120
	text := []rune(strings.Join(strings.Fields(s.Text), " "))
	if len(text) > most {
		return string(text[:most]) + "…"
	}
	return string(text)
}

var (
	//go:embed create_schema.sql
	createSchemaSQL string
	//go:embed create_trail.sql
	createTrailSQL string
	//go:embed record_step.sql
	recordStepSQL string
	//go:embed no_timeout.sql
	noTimeoutSQL string
	//go:embed try_lock.sql
	tryLockSQL string
	//go:embed unlock.sql
	unlockSQL string
	//go:embed lock_holder.sql
	lockHolderSQL string
)

// Apply brings the database at url up to this build: it applies the unbroken run of additive system steps, up to the first
// one that raises the floor or that is held back. Any number of brokers may call it at once. When something is to be done, the url must not lead
// through a transaction pooler. Errors to tell apart: *UnfitError, *PoolerError, *BusyError, *StatementError.
func Apply(ctx context.Context, url string, options Options) (Result, error) {
	options.fill()
	conn, err := connect(ctx, url)
	if err != nil {
		return Result{}, err
	}
	defer func() { _ = conn.Close(context.WithoutCancel(ctx)) }()
	if err := CheckServer(ctx, conn); err != nil {
		return Result{}, err
	}
	a := &applier{conn: conn, options: options, logger: options.Logger}
	return a.run(ctx)
}

func connect(ctx context.Context, url string) (*pgx.Conn, error) {
	config, err := pgx.ParseConfig(url)
	if err != nil {
		return nil, fmt.Errorf("parse database url: %w", err)
	}
	config.RuntimeParams["application_name"] = "waggle schema"
	config.DefaultQueryExecMode = pgx.QueryExecModeExec // plans kept from before a DDL would be stale
	conn, err := pgx.ConnectConfig(ctx, config)
	if err != nil {
		return nil, fmt.Errorf("connect to apply the schema: %w", err)
	}
	return conn, nil
}

type applier struct {
	conn     *pgx.Conn
	options  Options
	logger   *zap.Logger
	deadline time.Time
}

func (a *applier) run(ctx context.Context) (Result, error) {
	at, err := readPlace(ctx, a.conn, a.options.Steps)
	if err != nil {
		return Result{}, err
	}
	if len(due(a.options.Steps, at)) == 0 {
		return Result{Before: at.current, After: at.current}, nil
	}
	// A lock or a setting would stay on a connection that others use.
	if err := ProvePrivate(ctx, a.conn); err != nil {
		return Result{}, err
	}
	if _, err := a.conn.Exec(ctx, noTimeoutSQL); err != nil {
		return Result{}, fmt.Errorf("lift statement timeout: %w", err)
	}
	if err := a.takeLock(ctx); err != nil {
		return Result{}, err
	}
	defer a.releaseLock(ctx)
	return a.applyDue(ctx)
}

// applyDue is called under the lock of the apply.
func (a *applier) applyDue(ctx context.Context) (Result, error) {
	a.deadline = time.Now().Add(a.options.StatementPatience)
	if err := a.ensureTrail(ctx); err != nil {
		return Result{}, err
	}
	// Somebody may have applied it all while we waited.
	at, err := readPlace(ctx, a.conn, a.options.Steps)
	if err != nil {
		return Result{}, err
	}
	result := Result{Before: at.current, After: at.current}
	for _, step := range due(a.options.Steps, at) {
		if err := a.apply(ctx, step); err != nil {
			return result, err
		}
		result.After = step.Version
		result.Applied = append(result.Applied, step)
	}
	return result, nil
}

// due returns the system steps that follow where the database stands, up to the first that raises the floor: that one is
// for an operator to decide, when no build that lacks it runs any more. One whose floor was raised already, by an operator
// who was cut off then, is due. A hold ends the run too.
func due(steps []Step, at place) []Step {
	var result []Step
	for _, step := range steps {
		if step.Scope != System || step.Version <= at.current {
			continue
		}
		if step.RaisesFloor && step.Version > at.floor || at.hold != nil && step.Version > *at.hold {
			break
		}
		result = append(result, step)
	}
	return result
}

func (a *applier) apply(ctx context.Context, step Step) error {
	began := time.Now()
	for _, group := range grouped(step.Statements) {
		if err := a.executeGroup(ctx, step.File, group); err != nil {
			return err
		}
	}
	if _, err := a.conn.Exec(ctx, recordStepSQL, step.Scope, step.Version, step.Name, a.options.Build); err != nil {
		return fmt.Errorf("record schema step %s: %w", step.File, err)
	}
	a.logger.Info("applied schema step", zap.String("file", step.File), zap.Int("version", step.Version),
		zap.Duration("took", time.Since(began)))
	return nil
}

func (a *applier) ensureTrail(ctx context.Context) error {
	hasSchema, hasTrail, err := look(ctx, a.conn)
	if err != nil {
		return err
	}
	if !hasSchema {
		if _, err := a.conn.Exec(ctx, createSchemaSQL); err != nil {
			return fmt.Errorf("create schema waggle (grant CREATE on the database to this role, or create it beforehand: "+
				"CREATE SCHEMA waggle AUTHORIZATION role): %w", err)
		}
	}
	if !hasTrail {
		if _, err := a.conn.Exec(ctx, createTrailSQL); err != nil {
			return fmt.Errorf("create schema trail: %w", err)
		}
	}
	return nil
}

func (a *applier) setLockTimeout(ctx context.Context, timeout time.Duration) error {
	_, err := a.conn.Exec(ctx, "set lock_timeout = "+strconv.FormatInt(timeout.Milliseconds(), 10))
	if err != nil {
		return fmt.Errorf("set lock timeout: %w", err)
	}
	return nil
}

// metLock recognises lock_not_available and deadlock_detected.
func metLock(err error) bool {
	answer, ok := errors.AsType[*pgconn.PgError](err)
	return ok && (answer.Code == "55P03" || answer.Code == "40P01")
}

const (
	lockPoll          = 100 * time.Millisecond
	lockQueryPatience = 5 * time.Second
)

func (a *applier) takeLock(ctx context.Context) error {
	began := time.Now()
	said := false
	for {
		var got bool
		// A query cut short would take the connection with it, and with that the name of the holder.
		query, cancel := context.WithTimeout(context.WithoutCancel(ctx), lockQueryPatience)
		err := a.conn.QueryRow(query, tryLockSQL, Product, LockKey()).Scan(&got)
		cancel()
		if err != nil {
			return fmt.Errorf("try schema lock: %w", err)
		}
		if got {
			return nil
		}
		waited := time.Since(began)
		if waited > a.options.LockPatience {
			return &BusyError{Waited: waited, Holder: a.lockHolder(ctx)}
		}
		if !said && waited > time.Second {
			a.logger.Info("waiting for another session that applies the schema", zap.String("holder", a.lockHolder(ctx)))
			said = true
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("wait for schema lock, held by %s: %w", a.lockHolder(context.WithoutCancel(ctx)), context.Cause(ctx))
		case <-time.After(lockPoll/2 + rand.N(lockPoll)):
		}
	}
}

// lockHolder describes the holder as far as this role may see it.
func (a *applier) lockHolder(ctx context.Context) string {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	var pid int
	var user, application, address string
	err := a.conn.QueryRow(ctx, lockHolderSQL, Product, LockKey()).Scan(&pid, &user, &application, &address)
	if err != nil {
		return "a session that is not visible"
	}
	return fmt.Sprintf("pid %d, role %s, application %q, from %s", pid, user, application, address)
}

// releaseLock does not depend on the caller's context; when it fails, closing the connection releases the lock.
func (a *applier) releaseLock(ctx context.Context) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 2*time.Second)
	defer cancel()
	var released bool
	err := a.conn.QueryRow(ctx, unlockSQL, Product, LockKey()).Scan(&released)
	if err != nil || !released {
		a.logger.Warn("the schema lock goes with its connection", zap.String("code", "WG0025"), zap.Error(err))
	}
}
