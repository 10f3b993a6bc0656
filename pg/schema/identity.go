package schema

import (
	"context"
	"crypto/rand"
	_ "embed"
	"fmt"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"go.uber.org/zap"
)

// KeyLength is that of a key of the mesh, in bytes.
const KeyLength = 32

var (
	//go:embed identity_renew.sql
	identityRenewSQL string
	//go:embed identity_read.sql
	identityReadSQL string
)

// RenewIdentity gives a database that still says it lives at the given place a new cluster id and new mesh keys. It is
// false when somebody else was faster.
func RenewIdentity(ctx context.Context, q Querier, systemIdentifier string, databaseOID int64) (renewed bool, err error) {
	err = q.QueryRow(ctx, identityRenewSQL, uuid.New(), [][]byte{NewKey()}, systemIdentifier, databaseOID).Scan(&renewed)
	if err != nil {
		return false, fmt.Errorf("renew installation: %w", err)
	}
	return renewed, nil
}

// NewKey makes a key of the mesh.
func NewKey() []byte {
	key := make([]byte, KeyLength)
	rand.Read(key)
	return key
}

// NewIdentity makes a physical copy of a database another installation: brokers cannot tell such a copy from its original,
// and would look for each other. The error is a *BlockedError while brokers live on it, which would keep the old keys.
func (m *Migration) NewIdentity(ctx context.Context) (before, after uuid.UUID, err error) {
	at, err := readPlace(ctx, m.conn, m.options.Steps)
	if err != nil {
		return before, after, err
	}
	if at.current < BuildNeeds {
		return before, after, &TargetError{fmt.Sprintf("the database is at step %d; `migrate up` brings it to the steps of this build first", at.current)}
	}
	err = pgx.BeginFunc(ctx, m.conn, func(tx pgx.Tx) error {
		members, err := m.members(ctx, tx)
		if err != nil {
			return err
		}
		if len(members) > 0 {
			return &BlockedError{What: "a new identity", Blockers: members, Alive: true}
		}
		var identifier string
		var oid int64
		if err := tx.QueryRow(ctx, identityReadSQL).Scan(&before, &identifier, &oid); err != nil {
			return fmt.Errorf("read installation: %w", err)
		}
		if _, err := RenewIdentity(ctx, tx, identifier, oid); err != nil {
			return err
		}
		if err := tx.QueryRow(ctx, identityReadSQL).Scan(&after, &identifier, &oid); err != nil {
			return fmt.Errorf("read installation: %w", err)
		}
		return nil
	})
	if err != nil {
		return before, after, err
	}
	m.options.Logger.Info("new identity", zap.Stringer("cluster_id", after), zap.Stringer("before", before))
	return before, after, nil
}
