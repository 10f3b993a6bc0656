package api

import (
	"fmt"
	"hash/maphash"
	"strings"
	"sync"

	"waggle/api/jsonwire"
	"waggle/broker"
)

// pushDecoder reads the body of a push. Payloads stay where they are in the body, names and transaction ids are
// copied: the broker keeps those. Decoders are pooled because all of this runs once a message.
type pushDecoder struct {
	scanner jsonwire.Scanner
	items   []broker.PushItem
	names   internTable
}

var pushDecoders = sync.Pool{New: func() any { return &pushDecoder{names: internTable{seed: maphash.MakeSeed()}} }}

func takePushDecoder() *pushDecoder { return pushDecoders.Get().(*pushDecoder) }

const maxPooledItems = 4096

// release gives the decoder back. The items of its last body must not be used afterwards.
func (d *pushDecoder) release() {
	clear(d.items)
	d.items = d.items[:0]
	d.scanner.Reset(nil)
	if cap(d.items) <= maxPooledItems {
		pushDecoders.Put(d)
	}
}

// decode reads a whole body. Its errors are texts for the client. Where a key is repeated, the last one counts.
func (d *pushDecoder) decode(data []byte) ([]broker.PushItem, error) {
	d.items = d.items[:0]
	var ids strings.Builder
	s := &d.scanner
	s.Reset(data)
	found := false
	s.BeginObject()
	for key, ok := s.NextKey(); ok; key, ok = s.NextKey() {
		if string(key) != "items" {
			s.Raw()
			continue
		}
		found = true
		d.items = d.items[:0]
		s.BeginArray()
		for s.NextElement() {
			if err := d.item(&ids); err != nil {
				return nil, err
			}
		}
	}
	if err := s.End(); err != nil {
		return nil, badBody(err)
	}
	if !found {
		return nil, badBody(fmt.Errorf("missing field %q", "items"))
	}
	return d.items, nil
}

// item reads one element of items. A syntax error is left in the scanner.
func (d *pushDecoder) item(ids *strings.Builder) error {
	s := &d.scanner
	item := broker.PushItem{Partition: broker.DefaultPartition}
	var hasQueue bool
	at := len(d.items)
	s.BeginObject()
	for key, ok := s.NextKey(); ok; key, ok = s.NextKey() {
		switch string(key) {
		case "queue":
			name, ok := s.String()
			if ok {
				if err := checkPushName("queue", name, maxName, at); err != nil {
					return err
				}
				item.Queue, hasQueue = d.names.intern(name), true
			}
		case "partition":
			item.Partition = broker.DefaultPartition
			if s.Null() {
				continue
			}
			if name, ok := s.String(); ok {
				if err := checkPushName("partition", name, maxName, at); err != nil {
					return err
				}
				item.Partition = d.names.intern(name)
			}
		case "transactionId":
			item.TransactionID, item.HasTransactionID = "", false
			if s.Null() {
				continue
			}
			if id, ok := s.String(); ok {
				if err := checkPushName("transactionId", id, maxTransactionID, at); err != nil {
					return err
				}
				item.TransactionID, item.HasTransactionID = keep(ids, id), true
			}
		case "payload":
			item.Payload = s.Raw()
		default:
			s.Raw()
		}
	}
	switch {
	case s.Err() != nil:
		return nil
	case !hasQueue:
		return badBody(fmt.Errorf("items[%d]: missing field %q", at, "queue"))
	case item.Payload == nil:
		return badBody(fmt.Errorf("items[%d]: missing field %q", at, "payload"))
	}
	d.items = append(d.items, item)
	return nil
}

func badBody(err error) error { return fmt.Errorf("bad body: %w", err) }

// checkPushName checks a text of a push. The document it comes from is valid UTF-8.
func checkPushName(field string, text []byte, limit, at int) error {
	if len(text) > limit {
		return fmt.Errorf("items[%d]: %s is longer than %d bytes", at, field, limit)
	}
	for _, c := range text {
		if c < 0x20 {
			return fmt.Errorf("items[%d]: %s holds a control character", at, field)
		}
	}
	return nil
}

// keep copies text behind what arena holds: one allocation serves many ids. Strings handed out earlier stay valid,
// because a full arena is left to them and a new one begun, twice its size. Its size is limited because whoever keeps
// one of the ids keeps them all.
func keep(arena *strings.Builder, text []byte) string {
	if arena.Cap()-arena.Len() < len(text) {
		size := max(len(text), min(2*arena.Cap(), maxArena))
		*arena = strings.Builder{}
		arena.Grow(size)
	}
	start := arena.Len()
	arena.Write(text)
	return arena.String()[start:]
}

// maxArena holds the ids of a hundred usual messages.
const maxArena = 4 << 10

// internTable remembers names that were seen lately, so that a queue name is not allocated anew for each message. A
// name that meets another in its slot takes the slot.
type internTable struct {
	seed  maphash.Seed
	slots [256]string
}

func (t *internTable) intern(name []byte) string {
	slot := &t.slots[maphash.Bytes(t.seed, name)%uint64(len(t.slots))]
	if *slot != string(name) {
		*slot = string(name)
	}
	return *slot
}
