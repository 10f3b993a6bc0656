package node

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"

	"go.uber.org/zap"

	"waggle/mesh"
	"waggle/pg"
)

// registerTries bounds how often the keyring may move between its reading and the admission: a rotation moves it three
// times.
const registerTries = 5

// ring is the mesh keyring that this broker works with.
type ring struct {
	mu     sync.Mutex // one change at a time, from its reading on; guards what follows
	source pg.KeySource
	number int64 // of the database's ring; 0 when the keys come from elsewhere
	keys   [][]byte
}

// readMeshKeys reads the file that the settings name.
func (c *Config) readMeshKeys(refuse func(flag string, value any, cause string)) {
	c.meshKeys = nil
	if c.MeshKeyFile == "" {
		return
	}
	if c.MeshPlaintext {
		refuse("mesh-encryption", "off", "--mesh-key-file names keys that would not be used")
	}
	text, err := os.ReadFile(c.MeshKeyFile)
	if err == nil {
		c.meshKeys, err = mesh.ParseKeys(string(text))
	}
	if err != nil {
		refuse("mesh-key-file", c.MeshKeyFile, err.Error())
	}
}

// beginRing chooses the keys to start with.
func (n *Node) beginRing() {
	r := &n.ring
	switch {
	case n.config.MeshPlaintext:
		r.source = pg.KeysOff
		n.logger.Warn("THE MESH IS NOT ENCRYPTED: whoever reaches its port may read and forge what brokers tell each other",
			zap.String("code", "WG0311"), zap.String("setting", "--mesh-encryption=off"))
	case n.config.meshKeys != nil:
		r.source, r.keys = pg.KeysFromFile, n.config.meshKeys
		n.logger.Info("mesh keys come from a file", zap.String("file", n.config.MeshKeyFile), zap.Int("keys", len(r.keys)),
			zap.String("fingerprint", mesh.Fingerprint(r.keys[0])))
	default:
		r.source, r.keys, r.number = pg.KeysFromDatabase, n.installation.MeshKeys, n.installation.MeshRing
	}
}

// heldKeys is what the registry is told.
func (n *Node) heldKeys() pg.HeldKeys {
	r := &n.ring
	r.mu.Lock()
	defer r.mu.Unlock()
	held := pg.HeldKeys{Source: r.source, Ring: r.number}
	if len(r.keys) > 0 {
		held.Fingerprint = mesh.Fingerprint(r.keys[0])
	}
	return held
}

// readRing makes the mesh work with the database's keyring as it is now.
func (n *Node) readRing(ctx context.Context) error {
	r := &n.ring
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.source != pg.KeysFromDatabase {
		return nil
	}
	// Read under the lock: what was read earlier must not undo what was read later.
	now, err := n.db.MeshRing(ctx)
	if err != nil {
		return err
	}
	if err := n.mesh.SetKeys(now.Keys); err != nil {
		return err
	}
	if now.Number != r.number {
		n.logger.Info("mesh keyring taken over", zap.Int64("ring", now.Number), zap.Int64("was", r.number), zap.String("step", string(now.Step)))
	}
	r.number, r.keys = now.Number, now.Keys
	return nil
}

// reloadRing is called by the mesh when a packet cannot be decrypted.
func (n *Node) reloadRing(ctx context.Context) ([][]byte, error) {
	before := n.heldKeys()
	if err := n.readRing(ctx); err != nil {
		return nil, err
	}
	if n.heldKeys() != before {
		n.hurryHeartbeat() // which confirms
	}
	return nil, nil
}

// followRing takes over the keyring that a heartbeat has told of, and confirms it with another one.
func (n *Node) followRing(ctx context.Context, heard pg.Beat) error {
	if heard.Rotating {
		n.runner.Hurry(pg.RotationJob)
	}
	if held := n.heldKeys(); held.Source != pg.KeysFromDatabase || held.Ring == heard.MeshRing {
		return nil
	}
	if err := n.readRing(ctx); err != nil {
		return err
	}
	_, err := n.db.Heartbeat(ctx, n.startID, n.build, n.draining.Load(), n.heldKeys())
	return err
}

// register enters the registry with the keyring as it is at that moment.
func (n *Node) register(ctx context.Context) error {
	for range registerTries {
		err := n.db.Admit(ctx, n.registration())
		if !errors.Is(err, pg.ErrRingMoved) {
			return err
		}
		if err := n.readRing(ctx); err != nil {
			return err
		}
	}
	return fmt.Errorf("register: %w", pg.ErrRingMoved)
}
