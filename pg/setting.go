package pg

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"
)

// popMaintenance is the name of the switch that keeps every pop empty.
const popMaintenance = "pop_maintenance"

// PopMaintenance tells whether every pop of the cluster is to find nothing.
func (d *DB) PopMaintenance(ctx context.Context) (on bool, err error) {
	if err := d.pool.QueryRow(ctx, statement("setting_read"), popMaintenance).Scan(&on); err != nil {
		return false, fmt.Errorf("read pop maintenance: %w", err)
	}
	return on, nil
}

// SetPopMaintenance switches it, for all brokers and until it is switched back.
func (d *DB) SetPopMaintenance(ctx context.Context, on bool) error {
	err := d.write(ctx, func(tx pgx.Tx) error {
		_, err := tx.Exec(ctx, statement("setting_write"), popMaintenance, on)
		return err
	})
	if err != nil {
		return fmt.Errorf("set pop maintenance: %w", err)
	}
	return nil
}
