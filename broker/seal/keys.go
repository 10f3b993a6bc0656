package seal

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"regexp"
	"strings"

	"github.com/google/uuid"
)

// KeySize is the length of a key, in bytes.
const KeySize = 32

// Key is a secret and the name that sealed bodies call it by. It prints as its name.
type Key struct {
	id     string
	secret [KeySize]byte
}

// ID is the name of the key.
func (k Key) ID() string { return k.id }

// String is the name of the key: a secret that is formatted by mistake stays one.
func (k Key) String() string { return k.id }

// GoString does the same for %#v.
func (k Key) GoString() string { return k.id }

// Format does the same for every other verb.
func (k Key) Format(f fmt.State, _ rune) { _, _ = f.Write([]byte(k.id)) }

// ErrMalformedKey refuses a text that is no key. It never holds the text.
var ErrMalformedKey = errors.New("must be 32 bytes as 64 hexadecimal digits or as base64")

// ParseKey reads a key without a name; its name becomes the first 8 bytes of its SHA-256, in hexadecimal.
func ParseKey(text string) (Key, error) {
	var k Key
	text = strings.TrimSpace(text)
	secret, err := hex.DecodeString(text)
	if err != nil || len(secret) != KeySize {
		if secret, err = decodeBase64(text); err != nil || len(secret) != KeySize {
			return k, ErrMalformedKey
		}
	}
	copy(k.secret[:], secret)
	k.id = k.derivedID()
	return k, nil
}

// decodeBase64 takes the standard and the URL alphabet, padded or not.
func decodeBase64(text string) ([]byte, error) {
	text = strings.NewReplacer("-", "+", "_", "/").Replace(strings.TrimRight(text, "="))
	return base64.RawStdEncoding.Strict().DecodeString(text)
}

func (k Key) derivedID() string {
	sum := sha256.Sum256(k.secret[:])
	return hex.EncodeToString(sum[:8])
}

var keyID = regexp.MustCompile(`^[A-Za-z0-9._-]{1,64}$`)

// ParseKeys reads a list of keys, the current one first: lines of `id key` or of a key alone. Empty lines and lines that
// begin with # say nothing. Errors name the line, never what is on it.
func ParseKeys(text string) ([]Key, error) {
	var keys []Key
	var errs []error
	number := 0
	for line := range strings.Lines(text) {
		number++
		fields := strings.Fields(line)
		if len(fields) == 0 || strings.HasPrefix(fields[0], "#") {
			continue
		}
		key, err := parseLine(fields)
		if err != nil {
			errs = append(errs, fmt.Errorf("line %d: %w", number, err))
			continue
		}
		keys = append(keys, key)
	}
	if len(keys) == 0 && len(errs) == 0 {
		errs = append(errs, errors.New("holds no key"))
	}
	return keys, errors.Join(errs...)
}

func parseLine(fields []string) (Key, error) {
	switch len(fields) {
	case 1:
		return ParseKey(fields[0])
	case 2:
	default:
		return Key{}, errors.New("must be `id key` or a key alone")
	}
	key, err := ParseKey(fields[1])
	if err != nil {
		return Key{}, err
	}
	if !keyID.MatchString(fields[0]) {
		return Key{}, errors.New("the key's id must be 1 to 64 of A-Z, a-z, 0-9, dot, underscore and dash")
	}
	key.id = fields[0]
	return key, nil
}

// Keyring holds the keys of a broker: it seals with the first and opens with any. It never changes. A nil Keyring has no
// keys.
type Keyring struct {
	current  *Key
	byID     map[string]*Key
	clusters []uuid.UUID
}

// NewKeyring makes a keyring for an installation, whose ids are its current one and those that it had before. Every key is
// also found by the name that it would have without one of its own, so that it may be given one later. Without keys
// there is no keyring.
func NewKeyring(keys []Key, cluster uuid.UUID, former ...uuid.UUID) (*Keyring, error) {
	if len(keys) == 0 {
		return nil, nil
	}
	r := &Keyring{byID: make(map[string]*Key, 2*len(keys)), clusters: append([]uuid.UUID{cluster}, former...)}
	if err := CheckKeys(keys); err != nil {
		return nil, err
	}
	for i := range keys {
		key := keys[i]
		r.byID[key.id], r.byID[key.derivedID()] = &key, &key
		if i == 0 {
			r.current = &key
		}
	}
	return r, nil
}

// CheckKeys refuses keys of which two would answer to one name.
func CheckKeys(keys []Key) error {
	byID := map[string]Key{}
	for _, key := range keys {
		for _, id := range []string{key.id, key.derivedID()} {
			if other, taken := byID[id]; taken && other.secret != key.secret {
				return fmt.Errorf("two different keys have the id %s", id)
			}
			byID[id] = key
		}
	}
	return nil
}

// CanSeal tells whether there is a key to write with.
func (r *Keyring) CanSeal() bool { return r != nil }

// Current is the name of the key that is written with, empty for none.
func (r *Keyring) Current() string {
	if r == nil {
		return ""
	}
	return r.current.id
}
