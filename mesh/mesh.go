package mesh

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/google/uuid"
	"github.com/hashicorp/memberlist"
	"go.uber.org/zap"
)

// Bounds of leaving and stopping.
const (
	leaveFrameTimeout = 250 * time.Millisecond
	leaveTimeout      = time.Second
	stopTimeout       = 3 * time.Second
	publishTimeout    = 500 * time.Millisecond
)

// probeInterval is how often the library probes a peer: a kill is seen within 6 s up to 10 brokers.
const probeInterval = 700 * time.Millisecond

// Mesh is one broker's part in the mesh. Make one with New, then Start it once; end it with Leave or Stop.
type Mesh struct {
	cfg    Config
	frames FrameRange
	log    *zap.Logger
	meters *meters
	keys   *keyring
	base   time.Time // heard times count from here
	roster *roster
	// announcer is nil when this broker has no part in telling interest.
	announcer *announcer

	meta   atomic.Pointer[Meta]
	routes atomic.Pointer[routes]
	view   atomic.Pointer[View]
	left   atomic.Bool
	// unheard are the names of live brokers that are not heard.
	unheard atomic.Pointer[[]string]

	inbox       chan []byte
	hints       chan hint
	repairs     chan RepairReason
	leaves      chan uuid.UUID
	echoes      chan echo
	rows        chan registryRows
	joinNow     chan struct{}
	reload      chan struct{}
	selfChanged chan struct{}
	republish   chan struct{}

	running sync.WaitGroup // every goroutine of ours
	cancel  context.CancelFunc
	list    *memberlist.Memberlist
	address string
	since   time.Time

	life    sync.Mutex // one of Start, Leave and Stop at a time; guards the rest
	started bool
	stopped bool
}

// New checks a configuration, registers the metrics and returns a mesh that does nothing yet. The error joins all
// that is wrong.
func New(cfg Config) (*Mesh, error) {
	if err := cfg.validate(); err != nil {
		return nil, fmt.Errorf("mesh configuration: %w", err)
	}
	keys, err := newKeyring(cfg.Keys)
	if err != nil {
		return nil, err
	}
	meters, err := newMeters(cfg.Registerer)
	if err != nil {
		return nil, err
	}
	m := &Mesh{
		cfg: cfg, frames: cfg.frames(), log: cfg.Logger, meters: meters, keys: keys,
		base: time.Now(), since: time.Now(), roster: newRoster(nodeName(cfg.Name, cfg.StartID)),
		inbox: make(chan []byte, inboxSize), hints: make(chan hint, hintsSize), repairs: make(chan RepairReason, 1),
		leaves: make(chan uuid.UUID, signalsSize), echoes: make(chan echo, signalsSize), rows: make(chan registryRows),
		joinNow: make(chan struct{}, 1), reload: make(chan struct{}, 1),
		selfChanged: make(chan struct{}, 1), republish: make(chan struct{}, 1),
	}
	m.announcer = newAnnouncer(m, cfg.Interests)
	meta := cfg.meta()
	m.meta.Store(&meta)
	m.routes.Store(&routes{})
	m.unheard.Store(&[]string{})
	m.view.Store(&View{Members: []Member{m.self()}})
	return m, nil
}

// Start listens and begins to look for peers in the background. When it returns without error, Address is known and
// peers can join. ctx bounds the start only. An error may wrap ErrAddressInUse.
func (m *Mesh) Start(ctx context.Context) error {
	m.life.Lock()
	defer m.life.Unlock()
	if m.started || m.stopped {
		return errors.New("start mesh: it was started before")
	}
	library := &libraryLog{log: m.log, meters: m.meters, undecryptable: m.undecryptable}
	conf, err := m.libraryConfig(ctx, library)
	if err != nil {
		return fmt.Errorf("start mesh: %w", err)
	}
	m.address = joinAddress(net.ParseIP(conf.AdvertiseAddr), conf.AdvertisePort)
	if m.list, err = memberlist.Create(conf); err != nil {
		_ = conf.Transport.Shutdown()
		return fmt.Errorf("start mesh: %w", err)
	}
	m.view.Store(&View{Members: []Member{m.self()}})
	m.started = true
	var running context.Context
	running, m.cancel = context.WithCancel(context.Background())
	members := &membership{m: m, table: newTable(m.frames, m.base)}
	joins := &joiner{m: m, slots: make(chan struct{}, joinParallel), trying: make(map[string]bool)}
	for _, run := range []func(context.Context){
		m.receive, m.deliver, members.run, joins.run, m.reloadKeys, m.publishMeta, m.announcer.run,
	} {
		m.running.Go(func() { run(running) })
	}
	m.log.Info("mesh listening", zap.String("advertised", m.address), zap.String("cluster", m.cfg.Label),
		zap.Bool("encrypted", !m.cfg.Plaintext), zap.Uint8("frames", m.frames.Max))
	return nil
}

// libraryConfig listens and returns how the library is to be set up.
func (m *Mesh) libraryConfig(ctx context.Context, library *libraryLog) (*memberlist.Config, error) {
	conf := memberlist.DefaultLANConfig()
	conf.Name = m.roster.self
	conf.Label = m.cfg.Label
	conf.ProbeInterval = probeInterval
	conf.TCPTimeout = joinTimeout
	conf.EnableCompression = false
	// For ever 1: a peer with another number is refused, which would split the mesh. Ranges stand in the node meta.
	conf.DelegateProtocolVersion, conf.DelegateProtocolMin, conf.DelegateProtocolMax = 1, 1, 1
	conf.Delegate = &delegate{meta: &m.meta, inbox: m.inbox, meters: m.meters}
	conf.Events = m.roster
	conf.Keyring = m.keys.ring
	conf.Logger = library.logger()
	if m.cfg.Transport != nil {
		conf.Transport = m.cfg.Transport
		ip, port, err := m.cfg.Transport.FinalAdvertiseAddr("", 0)
		if err != nil {
			return nil, err
		}
		conf.AdvertiseAddr, conf.AdvertisePort = ip.String(), port
		return conf, nil
	}
	host, port, err := splitListen(m.cfg.Listen)
	if err != nil {
		return nil, err
	}
	sockets, err := listen(host, port, conf.Logger)
	if err != nil {
		return nil, err
	}
	advertised, err := resolveAdvertise(ctx, m.cfg.Advertise, host, sockets.GetAutoBindPort())
	if err != nil {
		_ = sockets.Shutdown()
		return nil, err
	}
	conf.Transport = sockets
	conf.BindAddr, conf.BindPort = host, sockets.GetAutoBindPort()
	conf.AdvertiseAddr, conf.AdvertisePort = advertised.Addr().String(), int(advertised.Port())
	return conf, nil
}

// Address is the ip:port that others reach this broker at; it is known once Start has returned.
func (m *Mesh) Address() string { return m.address }

// View is the membership as this broker sees it now.
func (m *Mesh) View() *View { return m.view.Load() }

// self is this broker's own entry in the view.
func (m *Mesh) self() Member {
	meta := m.meta.Load()
	state := StateAlive
	if m.left.Load() {
		state = StateLeft
	}
	return Member{
		Name: m.cfg.Name, StartID: m.cfg.StartID, Self: true, State: state, Since: m.since, Address: m.address,
		Build: meta.Build, HTTP: meta.HTTP, Frames: meta.Frames, Schema: meta.Schema,
		Draining: meta.Draining, Leader: meta.Leader,
	}
}

// SendWake tells every peer that has not said that it is not interested where something new may be. It never blocks and keeps nothing of items. Call it after the
// commit.
func (m *Mesh) SendWake(items ...Wake) {
	items = m.checkWakes(items)
	if len(items) == 0 || m.left.Load() {
		return
	}
	to := m.routes.Load()
	if m.announcer != nil {
		m.announcer.sendWake(to, items)
		return
	}
	for _, s := range to.senders {
		s.wake(items)
	}
}

// checkWakes leaves out what no frame can carry. A partition with such a name becomes its queue.
func (m *Mesh) checkWakes(items []Wake) []Wake {
	fits := func(w *Wake) bool { return w.Queue != "" && len(w.Queue) <= nameLimit && len(w.Partition) <= nameLimit }
	for i := range items {
		if fits(&items[i]) {
			continue
		}
		checked := append([]Wake(nil), items[:i]...)
		for _, wake := range items[i:] {
			if len(wake.Partition) > nameLimit {
				wake.Partition, wake.QueueWide = "", true
			}
			if !fits(&wake) {
				m.meters.drop(dropOversize)
				continue
			}
			checked = append(checked, wake)
		}
		return checked
	}
	return items
}

// SendInvalidation tells every peer what its caches should forget. It never blocks and keeps nothing of items. Call
// it after the commit.
func (m *Mesh) SendInvalidation(items ...Invalidation) {
	checked := make([]Invalidation, 0, len(items))
	for _, item := range items {
		if item.Queue == "" || len(item.Queue) > nameLimit || item.flags() == 0 {
			m.meters.drop(dropOversize)
			continue
		}
		if len(item.Group) > nameLimit {
			item.Group = ""
		}
		item.Version = max(item.Version, 0)
		checked = append(checked, item)
	}
	if len(checked) == 0 || m.left.Load() {
		return
	}
	for _, s := range m.routes.Load().senders {
		s.invalidate(checked)
	}
}

// SendLeaderHint tells every peer that the leadership may be free. It never blocks.
func (m *Mesh) SendLeaderHint() {
	if m.left.Load() {
		return
	}
	for _, s := range m.routes.Load().senders {
		s.leaderHint()
	}
}

// SetDraining tells the others whether this broker lets its clients go.
func (m *Mesh) SetDraining(draining bool) { m.change(func(meta *Meta) { meta.Draining = draining }) }

// SetLeader tells the others whether this broker leads. It is for people to read; nothing is decided on it.
func (m *Mesh) SetLeader(leader bool) { m.change(func(meta *Meta) { meta.Leader = leader }) }

func (m *Mesh) change(edit func(*Meta)) {
	for {
		have := m.meta.Load()
		next := *have
		edit(&next)
		if next == *have {
			return
		}
		if m.meta.CompareAndSwap(have, &next) {
			break
		}
	}
	offer(m.selfChanged, struct{}{})
	offer(m.republish, struct{}{})
}

// publishMeta spreads changed node meta. The library blocks until it has sent it to somebody.
func (m *Mesh) publishMeta(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-m.republish:
			if err := m.list.UpdateNode(publishTimeout); err != nil {
				m.log.Debug("mesh meta not spread yet", zap.Error(err))
			}
		}
	}
}

// sendTo puts a frame on the wire.
func (m *Mesh) sendTo(to *memberlist.Node, frame []byte) error {
	return m.list.SendBestEffort(to, frame)
}

// Leave says goodbye to the peers, by a frame of ours and through the library, and stops. It takes at most about five
// seconds. An error says that the library could not spread the word; the mesh is stopped all the same.
func (m *Mesh) Leave(ctx context.Context) error {
	err := m.sayGoodbye(ctx)
	m.Stop()
	return err
}

func (m *Mesh) sayGoodbye(ctx context.Context) error {
	m.life.Lock()
	defer m.life.Unlock()
	if !m.started || m.stopped {
		return nil
	}
	m.left.Store(true)
	offer(m.selfChanged, struct{}{})
	senders := m.routes.Load().senders
	for _, s := range senders {
		s.leave()
	}
	flushing, cancel := context.WithTimeout(ctx, leaveFrameTimeout)
	defer cancel()
	for _, s := range senders {
		select {
		case <-s.done:
		case <-flushing.Done():
		}
	}
	timeout := leaveTimeout
	if deadline, ok := ctx.Deadline(); ok {
		timeout = min(timeout, max(time.Until(deadline), time.Millisecond))
	}
	if err := m.list.Leave(timeout); err != nil {
		return fmt.Errorf("leave mesh: %w", err)
	}
	return nil
}

// Stop closes the sockets and waits for everything that the mesh started, for three seconds at most. To the peers it
// looks like a crash. It may be called more than once, and without Start.
func (m *Mesh) Stop() {
	m.life.Lock()
	defer m.life.Unlock()
	if m.stopped {
		return
	}
	m.stopped = true
	if !m.started {
		return
	}
	m.left.Store(true)
	m.cancel()
	done := make(chan struct{})
	go func() {
		defer close(done)
		// Closing the sockets is what ends a send or a dial that hangs.
		_ = m.list.Shutdown()
		m.running.Wait()
	}()
	select {
	case <-done:
	case <-time.After(stopTimeout):
		m.log.Warn("mesh did not stop in time", zap.String("code", "WG0301"), zap.Duration("waited", stopTimeout))
	}
}
