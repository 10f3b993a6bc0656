package pg

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
)

// Config says how to reach the database. DirectURL must not pass a transaction pooler; empty means URL.
type Config struct {
	URL             string
	DirectURL       string
	ApplicationName string
	// MaxConns bounds all connections of the broker but its leader session; FlushConns of them serve lanes alone.
	MaxConns   int
	FlushConns int
	Knows      Knows
}

// Knows is what a build understands: the fence of every writing transaction compares it with the floors.
type Knows struct {
	System int
	Record int
}

// Identity tells servers and their histories apart.
type Identity struct {
	System   string
	Timeline string
}

// DB is a broker's pools on its database: one for flushes, one for bundles, one for everything else. It is safe for
// concurrent use.
type DB struct {
	config   Config
	pool     *pgxpool.Pool
	flushes  *pgxpool.Pool
	bundles  *pgxpool.Pool
	knows    Knows
	identity atomic.Pointer[Identity]
	onMoved  atomic.Pointer[func()]
}

const (
	connectTimeout = 5 * time.Second
	// An idle connection is looked at this often, so that a restarted server is noticed without traffic.
	healthCheck = 15 * time.Second
	// bundleShare is the part of all connections, one in so many, that serves bundles.
	bundleShare = 5
)

// Open builds the pools. It does not wait for the database: the first query does.
func Open(ctx context.Context, config Config) (*DB, error) {
	if config.DirectURL == "" {
		config.DirectURL = config.URL
	}
	if config.FlushConns == 0 {
		config.FlushConns = 4
	}
	d := &DB{config: config, knows: config.Knows}
	var err error
	bundles := max(config.MaxConns/bundleShare, 1)
	if d.pool, err = d.open(ctx, max(config.MaxConns-config.FlushConns-bundles, 4), nil); err != nil {
		return nil, err
	}
	if d.flushes, err = d.open(ctx, config.FlushConns, prepareFlush); err != nil {
		d.pool.Close()
		return nil, err
	}
	if d.bundles, err = d.open(ctx, bundles, planLikeFlush); err != nil {
		d.flushes.Close()
		d.pool.Close()
		return nil, err
	}
	return d, nil
}

func (d *DB) open(ctx context.Context, conns int, prepare func(context.Context, *pgx.Conn) error) (*pgxpool.Pool, error) {
	settings, err := pgxpool.ParseConfig(d.config.URL)
	if err != nil {
		return nil, fmt.Errorf("parse database url: %w", err)
	}
	settings.MaxConns = int32(conns)
	settings.HealthCheckPeriod = healthCheck
	settings.ConnConfig.ConnectTimeout = connectTimeout
	settings.ConnConfig.RuntimeParams["application_name"] = d.config.ApplicationName
	settings.AfterConnect = func(ctx context.Context, conn *pgx.Conn) error {
		if err := d.recognise(ctx, conn); err != nil {
			return err
		}
		if prepare == nil {
			return nil
		}
		return prepare(ctx, conn)
	}
	pool, err := pgxpool.NewWithConfig(ctx, settings)
	if err != nil {
		return nil, fmt.Errorf("open pool: %w", err)
	}
	return pool, nil
}

// recognise notices failover and restore: what was cached of another history is worth nothing.
func (d *DB) recognise(ctx context.Context, conn *pgx.Conn) error {
	var now Identity
	if err := conn.QueryRow(ctx, statement("identity"), pgx.QueryExecModeExec).Scan(&now.System, &now.Timeline); err != nil {
		return fmt.Errorf("read server identity: %w", err)
	}
	conn.PgConn().CustomData()["identity"] = now
	before := d.identity.Swap(&now)
	if before != nil && *before != now {
		if moved := d.onMoved.Load(); moved != nil {
			(*moved)()
		}
	}
	return nil
}

func (d *DB) identityOf(conn *pgx.Conn) Identity {
	identity, _ := conn.PgConn().CustomData()["identity"].(Identity)
	return identity
}

// prepareFlush gives a connection the flush statements and a planner that takes the index whatever the statistics
// say: every one of them probes a few keys, and a plan made while a table was small must not outlive that.
func prepareFlush(ctx context.Context, conn *pgx.Conn) error {
	if err := planLikeFlush(ctx, conn); err != nil {
		return err
	}
	prepared := make(map[string]*pgconn.StatementDescription, len(flushStatements))
	for _, name := range flushStatements {
		description, err := conn.PgConn().Prepare(ctx, name, statement(name), nil)
		if err != nil {
			return fmt.Errorf("prepare %s: %w", name, err)
		}
		prepared[name] = description
	}
	conn.PgConn().CustomData()[preparedKey] = prepared
	return nil
}

// planLikeFlush gives a connection the planner of flushes.
func planLikeFlush(ctx context.Context, conn *pgx.Conn) error {
	if _, err := conn.Exec(ctx, statement("flush_planner")); err != nil {
		return fmt.Errorf("set planner: %w", err)
	}
	return nil
}

// preparedKey is where a connection keeps the descriptions of its flush statements.
const preparedKey = "prepared"

// OnMoved registers what to do when a new connection reaches another server or history than the last one did.
func (d *DB) OnMoved(moved func()) { d.onMoved.Store(&moved) }

// Pool is the pool of everything that is not a flush.
func (d *DB) Pool() *pgxpool.Pool { return d.pool }

// Stats describe the two pools, for metrics.
func (d *DB) Stats() (general, flushes *pgxpool.Stat) { return d.pool.Stat(), d.flushes.Stat() }

// FlushConns is how many connections serve flushes.
func (d *DB) FlushConns() int { return d.config.FlushConns }

// URL is where the pools connect to.
func (d *DB) URL() string { return d.config.URL }

// DirectURL reaches the server itself, past any pooler.
func (d *DB) DirectURL() string { return d.config.DirectURL }

// Close waits until every connection has been given back.
func (d *DB) Close() {
	d.bundles.Close()
	d.flushes.Close()
	d.pool.Close()
}

// Connect opens one connection that belongs to no pool.
func Connect(ctx context.Context, url, applicationName string) (*pgx.Conn, error) {
	settings, err := pgx.ParseConfig(url)
	if err != nil {
		return nil, fmt.Errorf("parse database url: %w", err)
	}
	settings.ConnectTimeout = connectTimeout
	settings.RuntimeParams["application_name"] = applicationName
	conn, err := pgx.ConnectConfig(ctx, settings)
	if err != nil {
		return nil, fmt.Errorf("connect: %w", err)
	}
	return conn, nil
}
