package schema

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"math/rand/v2"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"go.uber.org/zap"
)

// CodeStatementBlocked is that of a statement which met locks until the patience was over.
const CodeStatementBlocked = "WG0053"

var (
	//go:embed holders.sql
	holdersSQL string
	//go:embed live_brokers.sql
	liveBrokersSQL string
)

// LockedError says who kept something from being locked.
type LockedError struct {
	What    string
	Waited  time.Duration
	Holders []string
}

func (e *LockedError) Error() string {
	who := "sessions that are not visible to this role"
	if len(e.Holders) > 0 {
		who = strings.Join(e.Holders, "; ")
	}
	return fmt.Sprintf("%s could not be locked within %s: held by %s", e.What, e.Waited.Round(time.Second), who)
}

// holders describes the sessions with transactions of that age that hold locks on relations of the schema.
func holders(ctx context.Context, conn *pgx.Conn, relations []string, age time.Duration) (list []string, err error) {
	rows, err := conn.Query(ctx, holdersSQL, relations, age.Seconds())
	if err != nil {
		return nil, fmt.Errorf("read who holds locks: %w", err)
	}
	var pid int
	var user, application, query string
	var open float64
	_, err = pgx.ForEachRow(rows, []any{&pid, &user, &application, &open, &query}, func() error {
		holder := fmt.Sprintf("pid %d, role %s, application %q, transaction open for %.1f s", pid, user, application, open)
		if query != "" {
			holder += fmt.Sprintf(", last statement %q", query)
		}
		list = append(list, holder)
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("read who holds locks: %w", err)
	}
	return list, nil
}

var ourRelation = regexp.MustCompile(`\bwaggle\.([a-z_0-9]+)`)

// relationsOf names what the statements touch of the schema.
func relationsOf(statements []Statement) (names []string) {
	for _, s := range statements {
		for _, match := range ourRelation.FindAllStringSubmatch(s.Text, -1) {
			names = append(names, match[1])
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// changesTables tells statements that lock out readers and writers from those that only write rows.
func changesTables(statements []Statement) bool {
	return slices.ContainsFunc(statements, func(s Statement) bool {
		verb := strings.ToLower(strings.Fields(s.Text)[0])
		return verb == "alter" || verb == "drop"
	})
}

// grouped cuts a step into what is committed together: each statement alone, but a run of DROPs with the statement after
// it, so that nobody sees what they make room for missing.
func grouped(statements []Statement) (groups [][]Statement) {
	var group []Statement
	for _, s := range statements {
		group = append(group, s)
		if !drops(s) {
			groups = append(groups, group)
			group = nil
		}
	}
	if len(group) > 0 {
		groups = append(groups, group)
	}
	return groups
}

var dropping = regexp.MustCompile(`(?is)^(drop\s|alter\s+table\s.*\sdrop\s+(constraint|column)\s)`)

func drops(s Statement) bool { return dropping.MatchString(s.Text) }

// How long a statement may stand in a lock's queue, where all later traffic on the table stands behind it.
const (
	firstLockTimeout = 50 * time.Millisecond
	lastLockTimeout  = 150 * time.Millisecond
	// aloneLockTimeout is for when no broker lives whose traffic could stand behind it.
	aloneLockTimeout = 2 * time.Second
	// oldHolder is the age from which a transaction in the way is waited for without standing in the queue: it will not end within
	// a lock timeout.
	oldHolder     = time.Second
	oldHolderPoll = 50 * time.Millisecond
)

// executeGroup commits statements together, again and again while they only meet locks. Between two tries traffic runs at least as
// long as it was held up. The error is a *StatementError.
func (a *applier) executeGroup(ctx context.Context, file string, group []Statement) error {
	failed := func(err error) error { return &StatementError{File: file, Statement: group[0], Err: err} }
	relations := relationsOf(group)
	timeout := firstLockTimeout
	for {
		if changesTables(group) {
			if err := a.waitForOldHolders(ctx, relations); err != nil {
				return failed(err)
			}
		}
		longest, err := a.longestWait(ctx)
		if err != nil {
			return failed(err)
		}
		timeout = min(timeout, longest)
		if err := a.setLockTimeout(ctx, timeout); err != nil {
			return failed(err)
		}
		began := time.Now()
		if err = a.commit(ctx, group); !metLock(err) {
			if err != nil {
				return failed(err)
			}
			return nil
		}
		inTheWay, lookErr := holders(ctx, a.conn, relations, 0)
		if lookErr != nil {
			return failed(errors.Join(err, lookErr))
		}
		pause := max(time.Since(began), timeout) + rand.N(timeout)
		if time.Now().Add(pause).After(a.deadline) {
			return failed(a.gaveUp(relations, inTheWay, err))
		}
		a.logger.Warn("a schema statement met a lock, trying again", zap.String("code", "WG0024"), zap.String("file", file),
			zap.Strings("holders", inTheWay), zap.Duration("pause", pause), zap.Error(err))
		select {
		case <-ctx.Done():
			return failed(errors.Join(context.Cause(ctx), err))
		case <-time.After(pause):
		}
		timeout = 2 * timeout
	}
}

func (a *applier) gaveUp(relations, inTheWay []string, err error) error {
	what := "waggle." + strings.Join(relations, ", waggle.")
	return fmt.Errorf("%s %w (%w); end those sessions, or start again when they are gone: what was applied stays",
		CodeStatementBlocked, &LockedError{What: what, Waited: a.options.StatementPatience, Holders: inTheWay}, err)
}

func (a *applier) commit(ctx context.Context, group []Statement) error {
	if len(group) == 1 {
		_, err := a.conn.Exec(ctx, group[0].Text)
		return err
	}
	return pgx.BeginFunc(ctx, a.conn, func(tx pgx.Tx) error {
		for _, s := range group {
			if _, err := tx.Exec(ctx, s.Text); err != nil {
				return err
			}
		}
		return nil
	})
}

// waitForOldHolders looks, outside any queue, until no old transaction is in the way.
func (a *applier) waitForOldHolders(ctx context.Context, relations []string) error {
	for said := false; ; {
		inTheWay, err := holders(ctx, a.conn, relations, oldHolder)
		if err != nil || len(inTheWay) == 0 {
			return err
		}
		if time.Now().After(a.deadline) {
			return a.gaveUp(relations, inTheWay, errors.New("their transactions are older than a second, so no lock was asked for"))
		}
		if !said {
			said = true
			a.logger.Warn("a schema statement met a lock, trying again", zap.String("code", "WG0024"), zap.Strings("holders", inTheWay))
		}
		select {
		case <-ctx.Done():
			return errors.Join(context.Cause(ctx), &LockedError{What: "a table", Holders: inTheWay})
		case <-time.After(oldHolderPoll):
		}
	}
}

// longestWait is how long a statement may stand in a queue now.
func (a *applier) longestWait(ctx context.Context) (time.Duration, error) {
	at, err := readPlace(ctx, a.conn, a.options.Steps)
	if err != nil {
		return 0, err
	}
	if !at.registry {
		return aloneLockTimeout, nil
	}
	var live bool
	if err := a.conn.QueryRow(ctx, liveBrokersSQL, LiveWithin.Seconds()).Scan(&live); err != nil {
		return 0, fmt.Errorf("look for live brokers: %w", err)
	}
	if live {
		return lastLockTimeout, nil
	}
	return aloneLockTimeout, nil
}
