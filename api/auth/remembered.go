package auth

import (
	"crypto/sha256"
	"sync"
	"time"
)

// Identity is who a request comes from: the token's sub and its roles.
type Identity struct {
	Subject string
	Roles   Roles
	until   float64
}

// maxRemembered bounds the verified tokens that are kept.
const maxRemembered = 4096

// remembered are verified tokens. It belongs to one set of keys and is thrown away with it.
type remembered struct {
	mu     sync.RWMutex // guards tokens
	tokens map[[sha256.Size]byte]*Identity
}

func newRemembered() *remembered {
	return &remembered{tokens: make(map[[sha256.Size]byte]*Identity)}
}

// find returns nil for a token that is not known, or has expired since.
func (r *remembered) find(hash *[sha256.Size]byte, now time.Time) *Identity {
	r.mu.RLock()
	id := r.tokens[*hash]
	r.mu.RUnlock()
	if id == nil || float64(now.UnixMilli())/1000 > id.until {
		return nil
	}
	return id
}

// keep makes room by forgetting any other token when it is full.
func (r *remembered) keep(hash *[sha256.Size]byte, id *Identity) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.tokens) >= maxRemembered {
		for other := range r.tokens {
			delete(r.tokens, other)
			break
		}
	}
	r.tokens[*hash] = id
}
