package pgtest

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/stretchr/testify/require"

	"waggle/pg/schema"
)

// Database is one test's own database.
type Database struct {
	// URL leads to it as an ordinary role that owns it, as a broker's would.
	URL string
	// SuperURL leads to it as the superuser.
	SuperURL string
	// Name of the database.
	Name string
}

// Role is the ordinary role of all test databases.
const Role = "waggle_test"

// Option changes what New makes.
type Option func(*options)

type options struct {
	empty     bool
	finalized bool
	deadlocks bool
	server    *Server
}

// Empty leaves the schema out.
func Empty() Option { return func(o *options) { o.empty = true } }

// Finalized applies the steps that raise the floor too.
func Finalized() Option { return func(o *options) { o.finalized = true } }

// AllowDeadlocks is for the test of a deadlock. Otherwise one that happened in the database fails the test.
func AllowDeadlocks() Option { return func(o *options) { o.deadlocks = true } }

// On makes the database on a dedicated server instead of the shared one.
func On(server *Server) Option { return func(o *options) { o.server = server } }

// New makes a database with the schema in it. It is dropped when the test has ended, sessions that are left in it included.
func New(t testing.TB, chosen ...Option) *Database {
	t.Helper()
	var o options
	for _, option := range chosen {
		option(&o)
	}
	adminURL := ""
	if o.server != nil {
		adminURL = o.server.SuperURL()
	} else {
		adminURL = sharedURL(t)
	}
	admin := connect(t, adminURL)
	defer admin.Close(context.Background())
	require.NoError(t, ensureRole(t.Context(), admin), "make role")
	template := "template0"
	if !o.empty {
		var err error
		template, err = ensureTemplate(t.Context(), admin, adminURL)
		require.NoError(t, err, "prepare template database")
	}
	name := databaseName(t.Name())
	createDatabase(t, admin, name, template)
	db := &Database{Name: name, SuperURL: withDatabase(adminURL, name), URL: asRole(withDatabase(adminURL, name))}
	t.Cleanup(func() { db.drop(t, adminURL, o) })
	if o.finalized {
		db.Finalize(t)
	}
	return db
}

// Finalize applies the steps that raise the floor, as if no older build were left.
func (d *Database) Finalize(t testing.TB) {
	t.Helper()
	m, err := schema.OpenMigration(t.Context(), d.URL, schema.Options{Build: "test"})
	require.NoError(t, err, "open migration")
	defer m.Close(context.Background())
	_, err = m.Finalize(t.Context(), 0, false)
	require.NoError(t, err, "finalize")
}

// Migrate applies the schema of this build, for databases that were made Empty.
func (d *Database) Migrate(t testing.TB) {
	t.Helper()
	_, err := schema.Apply(t.Context(), d.URL, schema.Options{Build: "test"})
	require.NoError(t, err, "apply schema")
}

func (d *Database) drop(t testing.TB, adminURL string, o options) {
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	admin, err := pgx.Connect(ctx, adminURL)
	if err != nil && o.server != nil {
		return // the test left its server stopped
	}
	require.NoError(t, err, "connect to drop the test database")
	defer admin.Close(ctx)
	// A session reports its deadlocks when it ends, at the latest.
	_, err = admin.Exec(ctx, "select pg_terminate_backend(pid, 5000) from pg_stat_activity where datname = $1", d.Name)
	require.NoError(t, err, "end sessions of the test")
	if !o.deadlocks {
		var deadlocks int
		err := admin.QueryRow(ctx, "select deadlocks from pg_stat_database where datname = $1", d.Name).Scan(&deadlocks)
		require.NoError(t, err, "read deadlock count")
		if deadlocks > 0 {
			t.Errorf("%d deadlocks (40P01) happened in the test's database; the server's log says which statements met", deadlocks)
		}
	}
	_, err = admin.Exec(ctx, "drop database if exists "+quote(d.Name)+" with (force)")
	require.NoError(t, err, "drop the test database")
}

func connect(t testing.TB, url string) *pgx.Conn {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), url)
	require.NoError(t, err, "connect to the test server")
	return conn
}

func createDatabase(t testing.TB, admin *pgx.Conn, name, template string) {
	t.Helper()
	_, err := admin.Exec(t.Context(), fmt.Sprintf("create database %s template %s owner %s", quote(name), quote(template), Role))
	require.NoError(t, err, "create test database")
}

// databaseName is readable in a list of sessions, and within the 63 bytes of a name.
func databaseName(test string) string {
	readable := strings.Map(func(r rune) rune {
		if r == '_' || '0' <= r && r <= '9' || 'a' <= r && r <= 'z' || 'A' <= r && r <= 'Z' {
			return r
		}
		return '_'
	}, test)
	return strings.ToLower(readable[:min(len(readable), 40)] + "_" + rand.Text()[:12])
}

// ensureRole makes the ordinary role. Its password is no secret: the server listens on the loopback interface, and what the
// role can reach is made for one test.
func ensureRole(ctx context.Context, admin *pgx.Conn) error {
	var exists bool
	if err := admin.QueryRow(ctx, "select exists (select from pg_roles where rolname = $1)", Role).Scan(&exists); err != nil || exists {
		return err
	}
	_, err := admin.Exec(ctx, fmt.Sprintf("create role %s login password '%s'", Role, Role))
	if answer, ok := errors.AsType[*pgconn.PgError](err); ok && (answer.Code == "42710" || answer.Code == "23505") {
		return nil // another test was faster
	}
	return err
}

var templateMu sync.Mutex // lets one test of this binary at a time look for the template; others then find it

// ensureTemplate returns a database that holds the schema of this build. It is made under another name and renamed when it
// is complete, by whichever binary is first; its name carries a hash of the steps, so that work trees with different steps
// share a server.
func ensureTemplate(ctx context.Context, admin *pgx.Conn, adminURL string) (string, error) {
	templateMu.Lock()
	defer templateMu.Unlock()
	name := "waggle_template_" + stepsHash()
	exists := func() (found bool, err error) {
		err = admin.QueryRow(ctx, "select exists (select from pg_database where datname = $1)", name).Scan(&found)
		return found, err
	}
	if found, err := exists(); found || err != nil {
		return name, err
	}
	if _, err := admin.Exec(ctx, "select pg_advisory_lock(1)"); err != nil {
		return "", fmt.Errorf("lock template: %w", err)
	}
	defer func() { _, _ = admin.Exec(ctx, "select pg_advisory_unlock(1)") }()
	if found, err := exists(); found || err != nil {
		return name, err
	}
	return name, makeTemplate(ctx, admin, adminURL, name)
}

func makeTemplate(ctx context.Context, admin *pgx.Conn, adminURL, name string) error {
	draft := name + "_draft"
	for _, statement := range []string{
		"drop database if exists " + quote(draft) + " with (force)",
		"create database " + quote(draft) + " template template0 owner " + Role,
	} {
		if _, err := admin.Exec(ctx, statement); err != nil {
			return fmt.Errorf("make template: %w", err)
		}
	}
	if _, err := schema.Apply(ctx, asRole(withDatabase(adminURL, draft)), schema.Options{Build: "test"}); err != nil {
		return fmt.Errorf("apply schema to template: %w", err)
	}
	// The session that applied the schema may be a moment from gone, and a database in use is not renamed.
	if _, err := admin.Exec(ctx, "alter database "+quote(draft)+" allow_connections false"); err != nil {
		return fmt.Errorf("close template: %w", err)
	}
	if _, err := admin.Exec(ctx, "select pg_terminate_backend(pid, 5000) from pg_stat_activity where datname = $1", draft); err != nil {
		return fmt.Errorf("end sessions in template: %w", err)
	}
	if _, err := admin.Exec(ctx, "alter database "+quote(draft)+" rename to "+quote(name)); err != nil {
		return fmt.Errorf("name template: %w", err)
	}
	return nil
}

func stepsHash() string {
	h := sha256.New()
	for _, step := range schema.Steps() {
		fmt.Fprintln(h, step.File, step.Scope, step.RaisesFloor)
		for _, statement := range step.Statements {
			fmt.Fprintln(h, statement.Text)
		}
	}
	return hex.EncodeToString(h.Sum(nil)[:8])
}

func quote(name string) string { return pgx.Identifier{name}.Sanitize() }

func withDatabase(address, database string) string {
	return edit(address, func(u *url.URL) { u.Path = "/" + database })
}

func asRole(address string) string {
	return edit(address, func(u *url.URL) { u.User = url.UserPassword(Role, Role) })
}

func edit(address string, change func(*url.URL)) string {
	u, err := url.Parse(address)
	if err != nil {
		panic(err) // we made it
	}
	change(u)
	return u.String()
}
