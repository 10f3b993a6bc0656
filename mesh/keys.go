package mesh

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/hashicorp/memberlist"
	"go.uber.org/zap"
)

// Rhythm of reading the keyring again.
const (
	keyReloadInterval = 10 * time.Second
	keyReloadTimeout  = 5 * time.Second
)

var errPlaintext = errors.New("the mesh is not encrypted, it has no keyring")

// keyring changes the library's ring while packets are being decrypted with it.
type keyring struct {
	mu   sync.Mutex // one change at a time
	ring *memberlist.Keyring
}

func newKeyring(keys [][]byte) (*keyring, error) {
	if len(keys) == 0 {
		return &keyring{}, nil
	}
	ring, err := memberlist.NewKeyring(keys, keys[0])
	if err != nil {
		return nil, fmt.Errorf("make mesh keyring: %w", err)
	}
	return &keyring{ring: ring}, nil
}

// set makes the ring hold exactly these keys, in this order. It says whether anything changed.
//
// The library removes a key by moving those behind it within an array that a reader may be walking through; only
// removing the last one moves nothing. So the keys to keep are brought to the front first.
func (k *keyring) set(keys [][]byte) (changed bool, err error) {
	if k.ring == nil {
		return false, errPlaintext
	}
	if len(keys) == 0 {
		return false, errors.New("the new keyring is empty")
	}
	for i, key := range keys {
		if err := memberlist.ValidateKey(key); err != nil {
			return false, fmt.Errorf("key %d: %w", i, err)
		}
	}
	keys = distinct(keys)
	k.mu.Lock()
	defer k.mu.Unlock()
	if slices.EqualFunc(k.ring.GetKeys(), keys, bytes.Equal) {
		return false, nil
	}
	for _, key := range keys {
		if err := k.ring.AddKey(key); err != nil {
			return true, fmt.Errorf("add key: %w", err)
		}
	}
	if !startsWith(k.ring.GetKeys(), keys) {
		for _, key := range slices.Backward(keys) {
			if err := k.ring.UseKey(key); err != nil {
				return true, fmt.Errorf("use key: %w", err)
			}
		}
	}
	for have := k.ring.GetKeys(); len(have) > len(keys); have = k.ring.GetKeys() {
		if err := k.ring.RemoveKey(have[len(have)-1]); err != nil {
			return true, fmt.Errorf("remove key: %w", err)
		}
	}
	return true, nil
}

func distinct(keys [][]byte) (out [][]byte) {
	for _, key := range keys {
		if !slices.ContainsFunc(out, func(have []byte) bool { return bytes.Equal(have, key) }) {
			out = append(out, key)
		}
	}
	return out
}

func startsWith(have, want [][]byte) bool {
	return len(have) >= len(want) && slices.EqualFunc(have[:len(want)], want, bytes.Equal)
}

// SetKeys replaces the keyring; the first key encrypts from now on, all of them decrypt. The node calls it when it
// has read the ring again, after a reconnect or for a rotation.
func (m *Mesh) SetKeys(keys [][]byte) error {
	changed, err := m.keys.set(keys)
	if err != nil {
		return fmt.Errorf("set mesh keys: %w", err)
	}
	if changed {
		m.log.Info("mesh keyring changed", zap.Int("keys", len(keys)))
	}
	return nil
}

// undecryptable asks for the keyring to be read again; it is called from the library's log.
func (m *Mesh) undecryptable() {
	select {
	case m.reload <- struct{}{}:
	default:
	}
}

// reloadKeys reads the keyring again when packets cannot be decrypted, at most once per interval: strangers can send
// such packets too.
func (m *Mesh) reloadKeys(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-m.reload:
		}
		if m.cfg.ReloadKeys != nil {
			m.reloadOnce(ctx)
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(keyReloadInterval):
		}
	}
}

func (m *Mesh) reloadOnce(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, keyReloadTimeout)
	defer cancel()
	keys, err := m.cfg.ReloadKeys(ctx)
	if err == nil && keys != nil {
		err = m.SetKeys(keys)
	}
	if err != nil {
		m.log.Warn("mesh keyring not read again", zap.String("code", "WG0302"), zap.Error(err))
	}
}
