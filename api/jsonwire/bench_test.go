package jsonwire

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/go-json-experiment/json/jsontext"
)

// push is a body of the push route: n items with payloads of about size bytes, either one long text or many small
// members.
func push(n, size int, members bool) []byte {
	var b bytes.Buffer
	b.WriteString(`{"items":[`)
	for i := range n {
		if i > 0 {
			b.WriteByte(',')
		}
		fmt.Fprintf(&b, `{"queue":"bench","partition":"p%d","transactionId":"019a7c10-0000-7000-8000-%012d","payload":`, i%16, i)
		if members {
			b.WriteByte('{')
			for m := 0; m*24 < size; m++ {
				if m > 0 {
					b.WriteByte(',')
				}
				fmt.Fprintf(&b, `"key%d":%d,"name%d":"v%d"`, m, m*7919, m, m)
			}
			b.WriteByte('}')
		} else {
			fmt.Fprintf(&b, `{"n":%d,"pad":%q}`, i, strings.Repeat("x", size))
		}
		b.WriteByte('}')
	}
	b.WriteString(`]}`)
	return b.Bytes()
}

// scanPush does with our scanner what the push route does: find the four fields of each item and check everything.
func scanPush(s *Scanner, data []byte) (items, bytes int, err error) {
	s.Reset(data)
	s.BeginObject()
	for key, ok := s.NextKey(); ok; key, ok = s.NextKey() {
		if string(key) != "items" {
			s.Raw()
			continue
		}
		s.BeginArray()
		for s.NextElement() {
			s.BeginObject()
			for key, ok := s.NextKey(); ok; key, ok = s.NextKey() {
				switch string(key) {
				case "queue", "partition", "transactionId":
					text, _ := s.String()
					bytes += len(text)
				default:
					bytes += len(s.Raw())
				}
			}
			items++
		}
	}
	return items, bytes, s.End()
}

// decodePush does the same with jsontext.
func decodePush(d *jsontext.Decoder, data []byte) (items, bytes int, err error) {
	d.Reset(newReader(data), jsontext.AllowDuplicateNames(true))
	token := func() jsontext.Token {
		t, e := d.ReadToken()
		if e != nil && err == nil {
			err = e
		}
		return t
	}
	token()
	for err == nil && d.PeekKind() != '}' {
		if token().String() != "items" {
			err = d.SkipValue()
			continue
		}
		token()
		for err == nil && d.PeekKind() != ']' {
			token()
			for err == nil && d.PeekKind() != '}' {
				switch token().String() {
				case "queue", "partition", "transactionId":
					bytes += len(token().String())
				default:
					raw, e := d.ReadValue()
					bytes, err = bytes+len(raw), e
				}
			}
			token()
			items++
		}
		token()
	}
	token()
	return items, bytes, err
}

// newReader gives jsontext its fast path: it reads a *bytes.Buffer in place.
func newReader(data []byte) *bytes.Buffer { return bytes.NewBuffer(data) }

func BenchmarkPushBody(b *testing.B) {
	for _, shape := range []struct {
		name    string
		n, size int
		members bool
	}{
		{"1x256text", 1, 256, false},
		{"100x256text", 100, 256, false},
		{"100x256members", 100, 256, true},
		{"1x1MBtext", 1, 1 << 20, false},
	} {
		data := push(shape.n, shape.size, shape.members)
		b.Run(shape.name+"/scanner", func(b *testing.B) {
			var s Scanner
			b.SetBytes(int64(len(data)))
			b.ReportAllocs()
			for b.Loop() {
				if items, _, err := scanPush(&s, data); err != nil || items != shape.n {
					b.Fatal(items, err)
				}
			}
		})
		b.Run(shape.name+"/jsontext", func(b *testing.B) {
			var d jsontext.Decoder
			b.SetBytes(int64(len(data)))
			b.ReportAllocs()
			for b.Loop() {
				if items, _, err := decodePush(&d, data); err != nil || items != shape.n {
					b.Fatal(items, err)
				}
			}
		})
		b.Run(shape.name+"/encoding-json", func(b *testing.B) {
			var body struct {
				Items []struct {
					Queue, Partition, TransactionID string
					Payload                         json.RawMessage
				}
			}
			b.SetBytes(int64(len(data)))
			b.ReportAllocs()
			for b.Loop() {
				body.Items = body.Items[:0]
				if err := json.Unmarshal(data, &body); err != nil || len(body.Items) != shape.n {
					b.Fatal(err)
				}
			}
		})
	}
}
