package pg

import (
	"context"
	"fmt"
	"net"
	"net/netip"

	"github.com/jackc/pgx/v5"
)

// ListedBroker is a broker that lives, or that left a moment ago.
type ListedBroker struct {
	Registration
	Draining bool
	Left     bool
}

// ListedBrokers returns live brokers and those that signed off within the last minute, by name.
func (d *DB) ListedBrokers(ctx context.Context) ([]ListedBroker, error) {
	return collect(ctx, d.pool, "registry_listed", func(row pgx.CollectableRow) (b ListedBroker, err error) {
		err = row.Scan(&b.StartID, &b.Name, &b.Build.Version, &b.HTTP, &b.Mesh, &b.Build.Needs, &b.Build.Knows,
			&b.Build.RecordKnows, &b.FrameMin, &b.FrameMax, &b.Draining, &b.Left)
		return b, err
	}, LiveWithin.Seconds())
}

// LocalAddress is this end of a connection to the database: where somebody who reaches the database from another
// machine may reach us. It is the zero address for a Unix socket.
func (d *DB) LocalAddress(ctx context.Context) (netip.Addr, error) {
	conn, err := d.pool.Acquire(ctx)
	if err != nil {
		return netip.Addr{}, fmt.Errorf("acquire connection: %w", err)
	}
	defer conn.Release()
	tcp, ok := conn.Conn().PgConn().Conn().LocalAddr().(*net.TCPAddr)
	if !ok {
		return netip.Addr{}, nil
	}
	return tcp.AddrPort().Addr().Unmap(), nil
}
