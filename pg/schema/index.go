package schema

import (
	"context"
	"embed"
	"errors"
	"fmt"
	"hash/fnv"
	"io/fs"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"go.uber.org/zap"
)

// Index is one that is built beside traffic, after brokers are ready. No build may need it for correctness: it may be missing for
// as long as it takes.
type Index struct {
	Name string
	// SQL makes it, concurrently.
	SQL string
}

var (
	//go:embed indexes
	indexFiles embed.FS
	//go:embed index_look.sql
	indexLookSQL string
)

// Indexes returns those of this build, in the order of their names.
func Indexes() []Index {
	names, err := fs.Glob(indexFiles, "indexes/*.sql")
	if err != nil {
		panic(err) // the pattern is constant
	}
	slices.Sort(names)
	var list []Index
	for _, path := range names {
		text, err := fs.ReadFile(indexFiles, path)
		if err != nil {
			panic(err) // the folder is embedded
		}
		statements, err := Split(string(text))
		if err != nil || len(statements) != 1 {
			panic(fmt.Sprintf("%s: one statement, please: %v", path, err)) // a test reads them
		}
		list = append(list, Index{Name: strings.TrimSuffix(strings.TrimPrefix(path, "indexes/"), ".sql"), SQL: statements[0].Text})
	}
	return list
}

// Absent are the indexes that a database lacks.
type Absent struct {
	Index
	// Invalid says that a build was cut off and left one that is kept up to date but not used.
	Invalid bool
}

// AbsentIndexes looks for the indexes of this build.
func AbsentIndexes(ctx context.Context, q interface {
	Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error)
},
) (absent []Absent, err error) {
	all := Indexes()
	names := make([]string, len(all))
	for i, index := range all {
		names[i] = index.Name
	}
	rows, err := q.Query(ctx, indexLookSQL, names)
	if err != nil {
		return nil, fmt.Errorf("look for indexes: %w", err)
	}
	var name string
	var invalid bool
	_, err = pgx.ForEachRow(rows, []any{&name, &invalid}, func() error {
		i := slices.IndexFunc(all, func(index Index) bool { return index.Name == name })
		absent = append(absent, Absent{all[i], invalid})
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("look for indexes: %w", err)
	}
	return absent, nil
}

// RightsError says that the role may not build an index, because another one owns the table.
type RightsError struct {
	Index Index
	Err   error
}

func (e *RightsError) Error() string {
	return fmt.Sprintf("this role may not build index %s; let the owner of the tables run: %s: %v", e.Index.Name, e.Index.SQL, e.Err)
}

func (e *RightsError) Unwrap() error { return e.Err }

// indexLockKey is the second half of the advisory lock of whoever builds indexes.
func indexLockKey() int32 {
	h := fnv.New32a()
	h.Write([]byte("waggle indexes"))
	return int32(h.Sum32())
}

// BuildIndexes builds what is absent, one after the other, on a connection of its own to url, which must not lead through a
// transaction pooler. Building takes as long as it takes and ends with the context. While another session builds it does
// nothing: an index that is being built looks like one that was left behind. The error is a *RightsError where the role may not.
func BuildIndexes(ctx context.Context, url string, logger *zap.Logger) (built int64, err error) {
	conn, err := connect(ctx, url)
	if err != nil {
		return 0, err
	}
	defer closeSoon(conn)
	if err := ProvePrivate(ctx, conn); err != nil {
		return 0, err
	}
	var got bool
	if err := conn.QueryRow(ctx, tryLockSQL, Product, indexLockKey()).Scan(&got); err != nil || !got {
		return 0, err
	}
	if _, err := conn.Exec(ctx, noTimeoutSQL); err != nil {
		return 0, fmt.Errorf("lift statement timeout: %w", err)
	}
	absent, err := AbsentIndexes(ctx, conn)
	if err != nil {
		return 0, err
	}
	for _, index := range absent {
		if index.Invalid {
			if _, err := conn.Exec(ctx, "drop index concurrently if exists waggle."+pgx.Identifier{index.Name}.Sanitize()); err != nil {
				return built, index.failed(err)
			}
		}
		if _, err := conn.Exec(ctx, index.SQL); err != nil {
			return built, index.failed(err)
		}
		logger.Info("index built", zap.String("index", index.Name), zap.Bool("left_behind", index.Invalid))
		built++
	}
	return built, nil
}

func (a Absent) failed(err error) error {
	if answer, ok := errors.AsType[*pgconn.PgError](err); ok && answer.Code == "42501" {
		return &RightsError{a.Index, err}
	}
	return fmt.Errorf("build index %s: %w", a.Name, err)
}
