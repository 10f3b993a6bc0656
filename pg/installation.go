package pg

import (
	"context"
	"fmt"

	"github.com/google/uuid"

	"waggle/pg/schema"
)

// Installation is who the database is: everything that is made once, at the first boot, and shared by all brokers.
type Installation struct {
	ClusterID uuid.UUID
	// MeshKeys encrypt gossip; the first one encrypts, all decrypt. 32 bytes each.
	MeshKeys [][]byte
	// MeshRing is the number of that keyring.
	MeshRing int64
	// IDKey seals the row ids that go out on the wire.
	IDKey []byte
	Home  Home
	// Former are the cluster ids that the database had before it was copied, oldest first. What was encrypted then opens
	// only under them.
	Former []uuid.UUID
	// Original is where the database was copied from, when this call found a copy and gave it an identity of its own.
	Original *Original
}

// Home is where a database lives: what a dump does not carry along.
type Home struct {
	SystemIdentifier string
	DatabaseOID      int64
}

// Original is the identity that a copied database came with.
type Original struct {
	ClusterID uuid.UUID
	Home      Home
}

// EnsureInstallation returns the identity of the database, made by whoever is first. A dump that was restored elsewhere, on
// another server or into another database, gets a new cluster id and new mesh keys, so that its brokers never meet those
// of the original; Original says so. A physical copy cannot be told from its original here:
// `waggle migrate new-identity` is for those.
func (d *DB) EnsureInstallation(ctx context.Context) (Installation, error) {
	_, err := d.pool.Exec(ctx, statement("installation_insert"), uuid.New(), [][]byte{schema.NewKey()}, schema.NewKey())
	if err != nil {
		return Installation{}, fmt.Errorf("make installation: %w", err)
	}
	found, here, err := d.readInstallation(ctx)
	if err != nil || found.Home == here {
		return found, err
	}
	original := &Original{ClusterID: found.ClusterID, Home: found.Home}
	renewed, err := schema.RenewIdentity(ctx, d.pool, original.Home.SystemIdentifier, original.Home.DatabaseOID)
	if err != nil {
		return Installation{}, err
	}
	if found, _, err = d.readInstallation(ctx); err != nil {
		return Installation{}, err
	}
	if renewed {
		found.Original = original
	}
	return found, nil
}

func (d *DB) readInstallation(ctx context.Context) (found Installation, here Home, err error) {
	var former [][16]byte
	err = d.pool.QueryRow(ctx, statement("installation_read")).Scan(&found.ClusterID, &found.MeshKeys, &found.IDKey,
		&found.Home.SystemIdentifier, &found.Home.DatabaseOID, &here.SystemIdentifier, &here.DatabaseOID, &former, &found.MeshRing)
	if err != nil {
		return Installation{}, Home{}, fmt.Errorf("read installation: %w", err)
	}
	for _, id := range former {
		found.Former = append(found.Former, id)
	}
	return found, here, nil
}
