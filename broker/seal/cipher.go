package seal

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/hkdf"
	"crypto/rand"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
)

const (
	nonceSize = 24

	labelSegment    = "waggle segment"
	labelDeadLetter = "waggle dead letter"
)

// KeyError says that a body cannot be read or written because a key is missing. ID names it; it is empty where there is
// no key to write with.
type KeyError struct{ ID string }

func (e *KeyError) Error() string {
	if e.ID == "" {
		return "this broker has no encryption key"
	}
	return fmt.Sprintf("this broker does not have the encryption key %q", e.ID)
}

// TamperedError says that a body does not open although the key of that name is there: it was changed, or moved from its
// place, or that name stood for another key when it was sealed.
type TamperedError struct{ Key string }

func (e *TamperedError) Error() string {
	return fmt.Sprintf("does not open with the encryption key %q: changed, moved, or sealed with another key of that name", e.Key)
}

// errHead refuses a head that no cipher wrote.
var errHead = errors.New("seal: head corrupt")

// Cipher seals or opens the payloads of one body, in order, after Lock or Unlock. It is not safe for concurrent use.
type Cipher struct {
	keys  *Keyring
	label string
	place []byte

	key  string
	aead cipher.AEAD
	// data is the additional data: up to fixed it is the same for all payloads but for the cluster id before fixed.
	data    []byte
	fixed   int
	ordinal uint64
	// found says that the cluster has opened a payload.
	found   bool
	cluster int // of the keyring's, the one that the body was sealed in
	nonce   [12]byte
}

// Segment is for the payloads of a new or a stored segment of the partition.
func (r *Keyring) Segment(queue, partition int64) *Cipher {
	return &Cipher{keys: r, label: labelSegment, place: appendPlace(nil, queue, partition)}
}

// DeadLetter is for the payload of a dead letter: what the group gave up at the offset.
func (r *Keyring) DeadLetter(queue, partition, offset int64, group string) *Cipher {
	place := appendPlace(make([]byte, 0, 28+len(group)), queue, partition)
	place = binary.BigEndian.AppendUint64(place, uint64(offset))
	place = binary.BigEndian.AppendUint32(place, uint32(len(group)))
	return &Cipher{keys: r, label: labelDeadLetter, place: append(place, group...)}
}

func appendPlace(dst []byte, queue, partition int64) []byte {
	dst = binary.BigEndian.AppendUint64(dst, uint64(queue))
	return binary.BigEndian.AppendUint64(dst, uint64(partition))
}

// Lock begins a new body and returns its head. It draws a nonce of its own each time. A *KeyError when there is no key.
func (c *Cipher) Lock() (head []byte, err error) {
	if c.keys == nil {
		return nil, &KeyError{}
	}
	var nonce [nonceSize]byte
	rand.Read(nonce[:]) // never fails, or ends the process
	return c.lock(nonce)
}

func (c *Cipher) lock(nonce [nonceSize]byte) (head []byte, err error) {
	key := c.keys.current
	head = make([]byte, 0, 1+len(key.id)+nonceSize)
	head = append(head, byte(len(key.id)))
	head = append(head, key.id...)
	head = append(head, nonce[:]...)
	return head, c.use(key, nonce[:])
}

// Unlock begins to read the body of the head. A *KeyError when its key is not there.
func (c *Cipher) Unlock(head []byte) error {
	if len(head) == 0 || len(head) != 1+int(head[0])+nonceSize {
		return errHead
	}
	id, nonce := string(head[1:len(head)-nonceSize]), head[len(head)-nonceSize:]
	if !keyID.MatchString(id) {
		return errHead
	}
	if c.keys == nil || c.keys.byID[id] == nil {
		return &KeyError{ID: id}
	}
	return c.use(c.keys.byID[id], nonce)
}

func (c *Cipher) use(key *Key, nonce []byte) error {
	subkey, err := hkdf.Key(sha256.New, key.secret[:], nonce, c.label, KeySize)
	if err != nil {
		return fmt.Errorf("derive the key of a body: %w", err)
	}
	block, err := aes.NewCipher(subkey)
	if err != nil {
		return fmt.Errorf("derive the key of a body: %w", err)
	}
	if c.aead, err = cipher.NewGCM(block); err != nil {
		return fmt.Errorf("derive the key of a body: %w", err)
	}
	c.key, c.ordinal, c.cluster, c.found = key.id, 0, 0, false
	c.data = append(c.data[:0], byte(len(c.label)))
	c.data = append(c.data, c.label...)
	c.data = append(c.data, nonce...)
	c.data = append(c.data, c.place...)
	c.data = append(c.data, c.keys.clusters[0][:]...)
	c.fixed = len(c.data)
	return nil
}

// bind completes nonce and additional data for the payload that is next. Every piece but the last has a fixed length or
// says its own, so that no two places or ordinals read the same.
func (c *Cipher) bind(extra []byte) {
	binary.BigEndian.PutUint64(c.nonce[4:], c.ordinal)
	c.data = binary.BigEndian.AppendUint64(c.data[:c.fixed], c.ordinal)
	c.data = append(c.data, extra...)
}

// Seal appends the sealed form of the next payload of the body, bound to extra.
func (c *Cipher) Seal(dst, plain, extra []byte) []byte {
	c.bind(extra)
	c.ordinal++
	return c.aead.Seal(dst, c.nonce[:], plain, c.data)
}

// Open appends the next payload of the body. A *TamperedError when it is not what was sealed there, with extra.
func (c *Cipher) Open(dst, sealed, extra []byte) ([]byte, error) {
	c.bind(extra)
	plain, err := c.aead.Open(dst, c.nonce[:], sealed, c.data)
	for err != nil && !c.found && c.cluster+1 < len(c.keys.clusters) {
		c.cluster++
		copy(c.data[c.fixed-16:c.fixed], c.keys.clusters[c.cluster][:])
		plain, err = c.aead.Open(dst, c.nonce[:], sealed, c.data)
	}
	if err != nil {
		return nil, &TamperedError{Key: c.key}
	}
	c.ordinal++
	c.found = true
	return plain, nil
}

// Skip passes payloads of the body that is being read.
func (c *Cipher) Skip(payloads int) { c.ordinal += uint64(payloads) }
