package main

import (
	"context"
	"encoding/binary"
	"os"
	"strings"
	"testing"
	"time"
)

func payload(number, key int) []byte {
	p := make([]byte, payloadSize)
	binary.BigEndian.PutUint64(p, uint64(number))
	binary.BigEndian.PutUint32(p[8:], uint32(key))
	return p
}

func TestTheLedgerSeesWhatIsWrong(t *testing.T) {
	t.Parallel()
	l := &ledger{last: make([]int64, 2)}
	l.consume([][]byte{payload(0, 0), payload(2, 1), payload(3, 0)})
	l.consume([][]byte{payload(1, 0), payload(2, 1), payload(70_000, 1)})
	if l.consumed.Load() != 5 || l.doubled != 1 || l.disordered != 1 {
		t.Errorf("consumed %d, doubled %d, out of order %d", l.consumed.Load(), l.doubled, l.disordered)
	}
}

func TestTheTableComparesTheSameWork(t *testing.T) {
	t.Parallel()
	var out strings.Builder
	list := []result{{System: "waggle", Batch: 1}, {System: "waggle", Batch: 100}, {System: "other", Batch: 100}}
	for i, cpu := range []float64{50, 10, 80} {
		list[i].add(single{rate: 1, cpu: cpu})
	}
	writeTable(&out, list)
	lines := strings.Split(strings.TrimSpace(out.String()), "\n")
	if !strings.Contains(lines[3], "8.0x") || strings.Contains(lines[1], "x") {
		t.Error(out.String())
	}
}

// What needs nothing but PostgreSQL is measured for a moment: everything published is consumed once.
func TestSystemsOnPostgresLoseNothing(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	// Not t.TempDir: the server runs as another user, who could not pass the folder above it.
	folder, err := os.MkdirTemp("", "waggle-peers-test-")
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(folder)
	server, err := startPostgres(ctx, folder)
	if err != nil {
		t.Skip("LEFT OUT: no PostgreSQL: ", err)
	}
	defer server.stop()
	for _, s := range []system{&skipLocked{postgres: server}, &river{postgres: server}} {
		if err := s.start(ctx, folder); err != nil {
			t.Fatal(s.name(), err)
		}
		for _, batch := range []int{1, 100} {
			got, err := measure(ctx, s, work{batch: batch}, time.Second)
			if err != nil || got.lost != 0 || got.doubled != 0 || got.rate <= 0 || got.cpu <= 0 {
				t.Errorf("%s, batch %d: %v, %v", s.name(), batch, got, err)
			}
		}
		s.stop()
	}
}
