package bench

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"waggle/pg"
)

// The statements of the yardsticks and of the counters. They are this package's own: the product has no use for them.
var (
	//go:embed create_scratch.sql
	createScratch string
	//go:embed drop_scratch.sql
	dropScratch string
	//go:embed empty_scratch.sql
	emptyScratch string
	//go:embed insert_blob.sql
	insertBlob string
	//go:embed update_probe.sql
	updateProbe string
	//go:embed read_counters.sql
	readCounters string
	//go:embed count_purge.sql
	countPurge string
	//go:embed checkpoint.sql
	checkpoint string
	//go:embed describe_server.sql
	describeServer string
)

const applicationName = "waggle bench"

// database is the bench's own connection to the cluster's server.
type database struct {
	url     string
	conn    *pgx.Conn
	version string
	// postmaster is 0 when the server runs on another machine.
	postmaster int
	// cannotCheckpoint remembers a refusal, which is said once.
	cannotCheckpoint bool
}

func openDatabase(ctx context.Context, url string) (*database, error) {
	conn, err := pg.Connect(ctx, url, applicationName)
	if err != nil {
		return nil, err
	}
	d := &database{url: url, conn: conn}
	var backend int
	if err := conn.QueryRow(ctx, describeServer).Scan(&d.version, &backend); err != nil {
		return nil, errors.Join(fmt.Errorf("describe server: %w", err), conn.Close(ctx))
	}
	d.postmaster = findPostmaster(backend)
	if _, err := conn.Exec(ctx, createScratch, pgx.QueryExecModeSimpleProtocol); err != nil {
		return nil, errors.Join(fmt.Errorf("create scratch tables: %w", err), conn.Close(ctx))
	}
	return d, nil
}

// findPostmaster is the parent of our backend, provided that the backend's number means a postgres here.
func findPostmaster(backend int) int {
	name, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(backend), "comm"))
	if err != nil || !strings.HasPrefix(string(name), "postgres") {
		return 0
	}
	stat, err := readProcess(backend)
	if err != nil {
		return 0
	}
	return stat.parent
}

// close removes the scratch tables, even when the run was interrupted.
func (d *database) close() error {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	_, err := d.conn.Exec(ctx, dropScratch)
	return errors.Join(err, d.conn.Close(ctx))
}

// counters are the server's share of a cost; -1 each when they cannot be read.
func (d *database) counters(ctx context.Context) (writes, wal int64) {
	if err := d.conn.QueryRow(ctx, readCounters).Scan(&writes, &wal); err != nil {
		return -1, -1
	}
	return writes, wal
}

// settle makes sides start alike.
func (d *database) settle(ctx context.Context) error {
	if d.cannotCheckpoint {
		return nil
	}
	_, err := d.conn.Exec(ctx, checkpoint)
	var refused *pgconn.PgError
	if errors.As(err, &refused) {
		d.cannotCheckpoint = true
		return nil
	}
	return err
}

// awaitPurge waits, within reason, until the leader has removed what the bench deleted.
func (d *database) awaitPurge(ctx context.Context, patience time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	for {
		var left int64
		if err := d.conn.QueryRow(ctx, countPurge).Scan(&left); err != nil {
			return fmt.Errorf("count partitions to purge: %w", err)
		}
		if left == 0 {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("wait for the purge of %d partitions: %w", left, ctx.Err())
		case <-time.After(250 * time.Millisecond):
		}
	}
}
