package mesh

import (
	"context"
	"math/rand/v2"
	"net"
	"strconv"
	"sync"
	"time"

	"go.uber.org/zap"
)

// Rhythm of looking for peers that are not in the view.
const (
	joinEager         = 15 * time.Second // after the start
	joinEagerInterval = 500 * time.Millisecond
	joinInterval      = 15 * time.Second // and up to twice that
	registryInterval  = 5 * time.Second
	registryTimeout   = 2 * time.Second
	joinTimeout       = 2 * time.Second // for each address
	joinParallel      = 16
)

// joiner looks for peers in the registry and among the seeds. Its loop never waits for an address that does not
// answer: each one is tried on a goroutine of its own, one at a time per address.
type joiner struct {
	m       *Mesh
	slots   chan struct{}
	failing bool // the last reading of the registry failed

	mu     sync.Mutex // guards trying
	trying map[string]bool
}

// Join reads the registry and joins who is missing from the view, now instead of at the next turn. The node calls it
// when its own row is committed: of two brokers that start together, at least one then sees the other's.
func (m *Mesh) Join() { offer(m.joinNow, struct{}{}) }

// run looks for peers until ctx ends.
func (j *joiner) run(ctx context.Context) {
	eagerUntil := time.Now().Add(joinEager)
	next := time.Now()
	join := true
	for {
		j.look(ctx, join)
		pause := registryInterval
		now := time.Now()
		switch {
		case now.Before(eagerUntil):
			pause, next = joinEagerInterval, now
		case join:
			next = now.Add(joinInterval + rand.N(joinInterval))
		}
		select {
		case <-ctx.Done():
			return
		case <-j.m.joinNow:
			join = true
		case <-time.After(pause):
			join = !time.Now().Before(next)
		}
	}
}

// look reads the registry, passes the rows on and, when it is time to join, tries who is missing.
func (j *joiner) look(ctx context.Context, join bool) {
	asked := time.Now()
	rows, err := j.read(ctx)
	if err == nil {
		select {
		case j.m.rows <- registryRows{rows: rows, asked: asked}:
		case <-ctx.Done():
			return
		}
	}
	if !join {
		return
	}
	view := j.m.View()
	for _, row := range rows {
		if row.Left || row.Address == "" || row.StartID == j.m.cfg.StartID {
			continue
		}
		if member, known := view.ByStartID(row.StartID); known && member.State != StateDead {
			continue
		}
		j.try(ctx, row.Address)
	}
	for _, seed := range j.m.cfg.Seeds {
		j.try(ctx, seed)
	}
}

func (j *joiner) read(ctx context.Context) ([]RegistryMember, error) {
	ctx, cancel := context.WithTimeout(ctx, registryTimeout)
	defer cancel()
	rows, err := j.m.cfg.Registry.Live(ctx)
	if failing := err != nil; failing != j.failing {
		j.failing = failing
		if failing {
			j.m.log.Warn("mesh cannot read the broker registry", zap.String("code", "WG0303"), zap.Error(err))
		} else {
			j.m.log.Info("mesh reads the broker registry again")
		}
	}
	return rows, err
}

// try joins host:port in the background, unless that is being tried already or too many others are.
func (j *joiner) try(ctx context.Context, address string) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.trying[address] {
		return
	}
	select {
	case j.slots <- struct{}{}:
	default:
		return
	}
	j.trying[address] = true
	j.m.running.Go(func() {
		j.join(ctx, address)
		j.mu.Lock()
		delete(j.trying, address)
		j.mu.Unlock()
		<-j.slots
	})
}

// join resolves an address and contacts what it stands for, except who is in the view already.
func (j *joiner) join(ctx context.Context, address string) {
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		j.m.log.Debug("mesh address not joined", zap.String("address", address), zap.Error(err))
		return
	}
	resolving, cancel := context.WithTimeout(ctx, joinTimeout)
	defer cancel()
	ips, err := lookup(resolving, host)
	if err != nil {
		j.m.log.Debug("mesh address not resolved", zap.String("address", address), zap.Error(err))
		return
	}
	for _, ip := range ips {
		target := net.JoinHostPort(ip.String(), port)
		if ctx.Err() != nil || j.present(target) {
			continue
		}
		if _, err := j.m.list.Join([]string{target}); err != nil {
			j.m.log.Debug("mesh address not joined", zap.String("address", target), zap.Error(err))
			if undecryptableReply(err) {
				// The other side answers with a key that we lack, so ours is the ring that is out of date.
				j.m.meters.undecryptable.Inc()
				j.m.undecryptable()
			}
		}
	}
}

// present says whether an ip:port belongs to this broker or to a peer that is in the view.
func (j *joiner) present(address string) bool {
	for _, member := range j.m.View().Members {
		if member.Address == address && member.State.listed() {
			return true
		}
	}
	return false
}

// joinAddress joins host and port the way the library wants them.
func joinAddress(ip net.IP, port int) string {
	return net.JoinHostPort(ip.String(), strconv.Itoa(port))
}
