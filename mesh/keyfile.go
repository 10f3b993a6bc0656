package mesh

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"

	"github.com/hashicorp/memberlist"
)

// fingerprintBytes are enough to tell the few keys of a cluster apart.
const fingerprintBytes = 8

// Fingerprint names a key without giving it away.
func Fingerprint(key []byte) string {
	hash := sha256.New()
	hash.Write([]byte("waggle mesh key\x00"))
	hash.Write(key)
	return hex.EncodeToString(hash.Sum(nil)[:fingerprintBytes])
}

// ParseKeys reads a keyring from a text: a key of 16, 24 or 32 bytes a line, as hexadecimal digits or base64, the one
// that encrypts first. Empty lines and those that begin with # are skipped. Errors name the line and never show it.
func ParseKeys(text string) (keys [][]byte, err error) {
	number := 0
	for line := range strings.Lines(text) {
		number++
		line = strings.TrimSpace(line)
		if line == "" || line[0] == '#' {
			continue
		}
		key, err := parseKey(line)
		if err != nil {
			return nil, fmt.Errorf("line %d: %w", number, err)
		}
		keys = append(keys, key)
	}
	if len(keys) == 0 {
		return nil, errors.New("there is no key in it")
	}
	if have := distinct(keys); len(have) < len(keys) {
		return nil, errors.New("a key stands in it twice")
	}
	return keys, nil
}

// parseKey prefers hexadecimal digits: 32 of them would be base64 as well, of 24 other bytes.
func parseKey(line string) ([]byte, error) {
	if key, err := hex.DecodeString(line); err == nil && memberlist.ValidateKey(key) == nil {
		return key, nil
	}
	plain := strings.NewReplacer("-", "+", "_", "/").Replace(strings.TrimRight(line, "="))
	key, err := base64.RawStdEncoding.DecodeString(plain)
	if err != nil {
		return nil, errors.New("neither hexadecimal digits nor base64")
	}
	if memberlist.ValidateKey(key) != nil {
		return nil, errors.New("not 16, 24 or 32 bytes")
	}
	return key, nil
}
