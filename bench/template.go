package bench

import (
	"fmt"
	"math/rand/v2"
	"strings"
)

// payloadBytes is the size of every payload.
const payloadBytes = 256

// A mark names a message: which connection pushed it to which partition as its how-manieth. It is the transaction id
// and stands in the payload besides, so that what a pop returns can be checked against itself. Fixed width, so that it
// can be patched in place: 4 hex digits of writer, 4 of partition, 8 of sequence, after the prefix of the side.
const (
	markPrefix  = 8
	writerAt    = markPrefix
	partitionAt = writerAt + 4
	sequenceAt  = partitionAt + 4
	markBytes   = sequenceAt + 8
)

const hexDigits = "0123456789abcdef"

func putHex(dst []byte, n uint32) {
	for i := len(dst) - 1; i >= 0; i-- {
		dst[i] = hexDigits[n&15]
		n >>= 4
	}
}

func parseHex(text []byte) (n uint32, ok bool) {
	for _, c := range text {
		switch {
		case c >= '0' && c <= '9':
			n = n<<4 | uint32(c-'0')
		case c >= 'a' && c <= 'f':
			n = n<<4 | uint32(c-'a'+10)
		default:
			return 0, false
		}
	}
	return n, true
}

// partitionName is what a partition of a bench queue is called.
func partitionName(partition int) string { return fmt.Sprintf("p%04x", partition) }

// template is a push request of one connection with the places of everything that changes between requests.
type template struct {
	request []byte
	writer  int
	items   []itemPlaces
	// next is the sequence of the next message to each partition.
	next []uint32
}

// itemPlaces are offsets into the request.
type itemPlaces struct {
	partition int
	marks     [2]int
}

// newTemplate builds a request of batch items to queue. Payloads are text without repetition, each its own: a codec
// must not gain from the generator's laziness.
func newTemplate(queue, prefix string, writer, batch, partitions int, random *rand.Rand) *template {
	t := &template{writer: writer, next: make([]uint32, partitions)}
	var body strings.Builder
	mark := prefix + fmt.Sprintf("%04x", writer) + strings.Repeat("0", markBytes-partitionAt)
	body.WriteString(`{"items":[`)
	for i := range batch {
		if i > 0 {
			body.WriteByte(',')
		}
		var places itemPlaces
		body.WriteString(`{"queue":"` + queue + `","partition":"p`)
		places.partition = body.Len()
		body.WriteString(`0000","transactionId":"`)
		places.marks[0] = body.Len()
		body.WriteString(mark + `","payload":{"bench":"`)
		places.marks[1] = body.Len()
		body.WriteString(mark + `","text":"`)
		for range payloadBytes - len(`{"bench":"","text":""}`) - markBytes {
			body.WriteByte(textBytes[random.IntN(len(textBytes))])
		}
		body.WriteString(`"}}`)
		t.items = append(t.items, places)
	}
	body.WriteString(`]}`)
	head := "POST /api/v1/push HTTP/1.1\r\nHost: bench\r\nContent-Type: application/json\r\nContent-Length: " +
		fmt.Sprint(body.Len()) + "\r\n\r\n"
	for i := range t.items {
		t.items[i].partition += len(head)
		t.items[i].marks[0] += len(head)
		t.items[i].marks[1] += len(head)
	}
	t.request = []byte(head + body.String())
	return t
}

const textBytes = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789 ."

// fill makes the request the next one to partition and returns its first sequence. The request belongs to the template.
func (t *template) fill(partition int) (request []byte, first uint32) {
	first = t.next[partition]
	t.next[partition] += uint32(len(t.items))
	for i := range t.items {
		places := &t.items[i]
		putHex(t.request[places.partition:places.partition+4], uint32(partition))
		for _, at := range places.marks {
			putHex(t.request[at+partitionAt:at+sequenceAt], uint32(partition))
			putHex(t.request[at+sequenceAt:at+markBytes], first+uint32(i))
		}
	}
	return t.request, first
}
