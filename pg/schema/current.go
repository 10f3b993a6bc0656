package schema

import (
	"context"
	_ "embed"
	"fmt"
)

var (
	//go:embed look.sql
	lookSQL string
	//go:embed read_trail.sql
	readTrailSQL string
)

// Current returns the schema version of a database: the end of the unbroken run of applied steps, and zero when there is no
// waggle schema at all.
func Current(ctx context.Context, q Querier) (int, error) {
	_, hasTrail, err := look(ctx, q)
	if err != nil || !hasTrail {
		return 0, err
	}
	var versions []int
	if err := q.QueryRow(ctx, readTrailSQL).Scan(&versions); err != nil {
		return 0, fmt.Errorf("read schema trail: %w", err)
	}
	return Unbroken(versions), nil
}

func look(ctx context.Context, q Querier) (hasSchema, hasTrail bool, err error) {
	if err := q.QueryRow(ctx, lookSQL).Scan(&hasSchema, &hasTrail); err != nil {
		return false, false, fmt.Errorf("look for schema: %w", err)
	}
	return hasSchema, hasTrail, nil
}
