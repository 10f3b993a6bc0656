package cli

import (
	"errors"
	"net"
	"net/url"

	"waggle/node"
	"waggle/pg/schema"
)

// Database are the flags of every command that talks to PostgreSQL itself. The env tags hold the names that the compatible
// broker and common platforms use for the same settings.
type Database struct {
	DatabaseURL string `name:"database-url" env:"DATABASE_URL" secret:"" help:"PostgreSQL. Without it libpq's PG* variables count."`
	DirectURL   string `name:"direct-url" secret:"" help:"PostgreSQL past any pooler, for the leader's session and schema changes; default the same."`
	PGHost      string `name:"pg-host" env:"PG_HOST" hidden:""`
	PGPort      string `name:"pg-port" env:"PG_PORT" hidden:""`
	PGUser      string `name:"pg-user" env:"PG_USER" hidden:""`
	PGPassword  string `name:"pg-password" env:"PG_PASSWORD" secret:"" hidden:""`
	PGDB        string `name:"pg-db" env:"PG_DB" hidden:""`
}

// url puts the parts together that the compatible broker names apart.
func (d *Database) url() string {
	if d.DatabaseURL != "" || d.PGHost == "" {
		return d.DatabaseURL
	}
	or := func(text, otherwise string) string {
		if text == "" {
			return otherwise
		}
		return text
	}
	user := url.User(or(d.PGUser, "postgres"))
	if d.PGPassword != "" {
		user = url.UserPassword(or(d.PGUser, "postgres"), d.PGPassword)
	}
	return (&url.URL{
		Scheme: "postgres", User: user, Host: net.JoinHostPort(d.PGHost, or(d.PGPort, "5432")), Path: "/" + or(d.PGDB, "postgres"),
	}).String()
}

// direct is the URL for what must not pass a transaction pooler.
func (d *Database) direct() (string, error) {
	address, err := node.DirectURL(d.url(), d.DirectURL)
	if err != nil {
		return "", Fail(ExitUsage, err)
	}
	return address, nil
}

// databaseError gives what a command met at the database its exit code.
func databaseError(err error) error {
	var blocked *schema.BlockedError
	var locked *schema.LockedError
	var busy *schema.BusyError
	var target *schema.TargetError
	var statement *schema.StatementError
	var gate *schema.GateError
	var stranger *schema.StrangerError
	var shape *schema.ShapeError
	switch {
	case err == nil:
		return nil
	case errors.As(err, &target):
		return Fail(ExitUsage, err)
	case errors.As(err, &gate), errors.As(err, &stranger), errors.As(err, &shape):
		return Fail(ExitGate, err)
	case errors.As(err, &blocked), errors.As(err, &locked), errors.As(err, &busy):
		return Fail(ExitRefused, err)
	case errors.As(err, &statement):
		return Fail(ExitFailed, err)
	default:
		return Fail(ExitDatabase, node.ExplainDatabase(err))
	}
}
