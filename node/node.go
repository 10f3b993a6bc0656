package node

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/google/uuid"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"go.uber.org/zap"

	"waggle/admin"
	"waggle/api"
	"waggle/broker"
	"waggle/broker/seal"
	"waggle/broker/wireid"
	"waggle/leader"
	"waggle/mesh"
	"waggle/pg"
	"waggle/pg/schema"
)

// stopPatience bounds a stop after the drain delay.
const stopPatience = 20 * time.Second

// Node is one broker. Make it with New, then Start, Run and Stop it once.
type Node struct {
	config   Config
	logger   *zap.Logger
	startID  uuid.UUID
	build    schema.Build
	registry *prometheus.Registry
	parts    *parts

	db           *pg.DB
	installation pg.Installation
	listener     net.Listener
	httpURL      string
	mesh         *mesh.Mesh // nil with the mesh off
	ring         ring
	keys         *seal.Keyring // nil without encryption
	broker       *broker.Broker
	elector      *leader.Elector
	runner       *leader.Runner
	campaign     *part
	server       *http.Server
	heartbeatNow chan struct{}
	// settingsMu holds the reading of the cluster's switches and what follows from it together.
	settingsMu sync.Mutex
	leaders    leaderCache

	draining  atomic.Bool
	readiness atomic.Pointer[api.Readiness]
}

// New checks the configuration. Nothing is started or opened.
func New(config Config, logger *zap.Logger) (*Node, error) {
	if err := config.Validate(); err != nil {
		return nil, err
	}
	startID, err := uuid.NewV7()
	if err != nil {
		return nil, fmt.Errorf("make start id: %w", err)
	}
	n := &Node{
		config: config, logger: logger, startID: startID, build: schema.ThisBuild(config.Version),
		registry: prometheus.NewRegistry(), heartbeatNow: make(chan struct{}, 1), parts: newParts(logger),
	}
	n.registry.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	n.registry.MustRegister(newBuildInfo(config.Version))
	n.setReadiness(false, "WG0001", "starting")
	return n, nil
}

// Start brings everything up, in order; on failure it takes down again what it had started.
func (n *Node) Start(ctx context.Context) (err error) {
	defer func() {
		if err != nil {
			stop, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopPatience)
			defer cancel()
			_ = n.parts.down(stop)
		}
	}()
	if n.runner, err = leader.NewRunner(n.logger.Named("job"), n.registry); err != nil {
		return fmt.Errorf("jobs: %w", err)
	}
	if err := n.openDatabase(ctx); err != nil {
		return err
	}
	if err := n.listen(); err != nil {
		return err
	}
	if err := n.startMesh(ctx); err != nil {
		return err
	}
	if err := n.admit(ctx); err != nil {
		return err
	}
	if err := n.startBroker(ctx); err != nil {
		return err
	}
	if n.mesh != nil {
		n.mesh.Join()
	}
	collector := n.parts.start("collector", tuneCollector)
	n.parts.undo("collector", collector.stop)
	activity := n.parts.start("activity", n.writeActivity)
	n.parts.undo("activity", activity.stop)
	heartbeat := n.parts.start("registry", n.heartbeat)
	n.parts.undo("registry heartbeat", heartbeat.stop)
	if err := n.startCampaign(); err != nil {
		return err
	}
	if err := n.serve(); err != nil {
		return err
	}
	n.setReadiness(true, "", "")
	n.logger.Info("listening", n.settings()...)
	return nil
}

// Run waits until the context ends or a part fails, then stops the node.
func (n *Node) Run(ctx context.Context) error {
	var failure error
	select {
	case <-ctx.Done():
	case failure = <-n.parts.failed:
		n.logger.Error("stopping", zap.String("code", "WG0003"), zap.Error(failure))
	}
	return errors.Join(failure, n.Stop(context.WithoutCancel(ctx)))
}

// Stop takes the broker out of service without losing a call: it is not ready at once, resigns, lets clients go over
// the drain delay, and closes when nothing is in flight any more.
func (n *Node) Stop(ctx context.Context) error {
	n.logger.Info("stopping", zap.Duration("drain_delay", n.config.DrainDelay))
	n.draining.Store(true)
	if readiness := n.readiness.Load(); readiness.Code == "" {
		n.setReadiness(false, "WG0002", "draining")
	}
	resign, cancel := context.WithTimeout(ctx, 5*time.Second)
	if n.campaign != nil {
		if err := n.campaign.stop(resign); err != nil {
			n.logger.Warn("campaign did not end in time", zap.String("code", "WG0005"), zap.Error(err))
		}
	}
	cancel()
	n.drain(ctx)
	ctx, cancel = context.WithTimeout(ctx, stopPatience)
	defer cancel()
	err := n.parts.down(ctx)
	n.logger.Info("stopped")
	return err
}

// drain tells the others, and lets parked pops go.
func (n *Node) drain(ctx context.Context) {
	if n.mesh != nil {
		n.mesh.SetDraining(true)
	}
	n.hurryHeartbeat()
	if n.broker == nil || n.server == nil {
		return
	}
	n.broker.Drain(n.config.DrainDelay)
	select {
	case <-ctx.Done():
	case <-time.After(n.config.DrainDelay):
	}
}

func (n *Node) setReadiness(ready bool, code, reason string) {
	n.readiness.Store(&api.Readiness{Ready: ready, Code: code, Reason: reason})
}

// openDatabase waits for the database, makes or checks the schema, and learns whose installation this is.
func (n *Node) openDatabase(ctx context.Context) error {
	db, err := pg.Open(ctx, pg.Config{
		URL: n.config.DatabaseURL, DirectURL: n.config.DirectURL, ApplicationName: "waggle " + n.config.Name,
		MaxConns: n.config.Pool, FlushConns: n.config.Lanes + 2,
		Knows: pg.Knows{System: n.build.Knows, Record: n.build.RecordKnows},
	})
	if err != nil {
		return &DatabaseError{err}
	}
	n.db = db
	n.parts.undo("database", func(context.Context) error { db.Close(); return nil })
	if err := n.awaitDatabase(ctx); err != nil {
		return err
	}
	if n.config.ApplySchema {
		result, err := schema.Apply(ctx, n.db.DirectURL(), schema.Options{Build: n.config.Version, Logger: n.logger})
		var stranger *schema.StrangerError
		switch {
		case errors.As(err, &stranger):
			return stranger
		case err != nil:
			return &DatabaseError{fmt.Errorf("apply schema: %w", err)}
		}
		if len(result.Applied) > 0 {
			n.logger.Info("schema applied", zap.Int("before", result.Before), zap.Int("after", result.After))
		}
	}
	if err := n.checkGate(ctx); err != nil {
		return err
	}
	if err := n.checkShape(ctx); err != nil {
		return err
	}
	if n.installation, err = n.db.EnsureInstallation(ctx); err != nil {
		return &DatabaseError{fmt.Errorf("read installation: %w", err)}
	}
	if original := n.installation.Original; original != nil {
		n.logger.Warn("this database is a copy of another one; it has got an identity of its own", zap.String("code", "WG0008"),
			zap.Stringer("cluster_id", n.installation.ClusterID), zap.Stringer("copied_from", original.ClusterID))
	}
	n.registry.MustRegister(newPoolCollector(n.db))
	return nil
}

// checkGate refuses a database that does not fit before anything of it is used; admission decides again, atomically.
func (n *Node) checkGate(ctx context.Context) error {
	var stranger *schema.StrangerError
	if err := schema.Recognise(ctx, n.db.Pool(), schema.Steps()); errors.As(err, &stranger) {
		return err
	} else if err != nil {
		return &DatabaseError{err}
	}
	current, err := schema.Current(ctx, n.db.Pool())
	if err != nil {
		return &DatabaseError{err}
	}
	if schema.Decide(n.build.Needs, n.build.Knows, current, 0) == schema.Older {
		err := schema.Check(n.build, schema.State{Current: current})
		n.refusedByGate(err)
		return err
	}
	return nil
}

// checkShape refuses tables that are not as this build's SQL needs them, whoever made them so.
func (n *Node) checkShape(ctx context.Context) error {
	harmless, err := schema.CheckShape(ctx, n.db.Pool())
	var wrong *schema.ShapeError
	if err != nil && !errors.As(err, &wrong) {
		return &DatabaseError{err}
	}
	for _, d := range harmless {
		n.logger.Warn("a table is not as it was made", zap.String("code", "WG0057"), zap.String("difference", d.What), zap.Strings("mend", d.Mend))
	}
	return err
}

// awaitDatabase asks again until the database answers or the patience is over. Only what may pass by itself is waited
// for: a wrong password is not.
func (n *Node) awaitDatabase(ctx context.Context) error {
	deadline := time.Now().Add(n.config.StartPatience)
	for wait := 200 * time.Millisecond; ; wait = min(2*wait, 3*time.Second) {
		err := schema.CheckServer(ctx, n.db.Pool())
		switch {
		case err == nil:
			return nil
		case ctx.Err() != nil:
			return ctx.Err()
		case !passing(err):
			return &DatabaseError{ExplainDatabase(err)}
		case time.Now().Add(wait).After(deadline):
			return &DatabaseError{fmt.Errorf("gave up after %v: %w", n.config.StartPatience, ExplainDatabase(err))}
		}
		n.logger.Warn("waiting for the database", zap.String("code", "WG0007"), zap.Duration("patience_left", time.Until(deadline).Round(time.Second)),
			zap.Error(ExplainDatabase(err)))
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(wait):
		}
	}
}

// listen takes the HTTP address, so that one in use is known before anybody is told of this broker.
func (n *Node) listen() error {
	listener, err := net.Listen("tcp", n.config.Listen)
	if err != nil {
		if errors.Is(err, syscall.EADDRINUSE) {
			return &AddressError{Flag: "listen", Address: n.config.Listen, Cause: errors.New("address already in use")}
		}
		return &AddressError{Flag: "listen", Address: n.config.Listen, Cause: err}
	}
	n.listener = listener
	n.parts.undo("listener", func(context.Context) error { _ = listener.Close(); return nil })
	return nil
}

func (n *Node) startBroker(ctx context.Context) error {
	ids, err := wireid.NewCodec(n.installation.IDKey)
	if err != nil {
		return fmt.Errorf("make ids: %w", err)
	}
	if err := n.makeKeyring(); err != nil {
		return err
	}
	config := broker.Config{
		DB: n.db, IDs: ids, Keys: n.keys, Logger: n.logger.Named("broker"), Registerer: n.registry, Lanes: n.config.Lanes,
		SubscriptionMode: n.config.SubscriptionMode, SafeFloor: n.config.SafeFloor,
		Autopilot: broker.AutopilotMode(n.config.PopAutopilot), FloorRaised: n.hurryHeartbeat,
	}
	if n.mesh != nil {
		config.Hints, config.Interested = &hints{n.mesh}, n.mesh.Interested
	}
	n.broker = broker.New(config)
	n.parts.undo("data plane", func(context.Context) error { n.broker.Close(); return nil })
	if _, err := n.readSettings(ctx); err != nil {
		return &DatabaseError{err}
	}
	return nil
}

// serve begins to answer requests.
func (n *Node) serve() error {
	lag := admin.NewLagCollector(n.db.MeasureLag, n.logger)
	n.parts.undo("lag", func(context.Context) error { lag.Close(); return nil })
	if err := n.registry.Register(lag); err != nil {
		return err
	}
	ids, err := wireid.NewCodec(n.installation.IDKey)
	if err != nil {
		return err
	}
	queen := &queenCollector{node: n, start: time.Now(), scraped: time.Now()}
	if err := n.registry.Register(queen); err != nil {
		return err
	}
	handler, err := api.New(api.Settings{
		Version: n.config.Version, Tenancy: n.config.Tenancy, MaxBodyBytes: n.config.MaxBodyBytes,
		PopTimeout: n.config.PopTimeout, ClusterID: n.installation.ClusterID.String(), ServerID: n.config.Name,
	}, api.Parts{
		Auth:   n.startAuth(),
		Broker: n.broker, Reads: admin.NewReader(n.db, ids, broker.ResolveOptions).WithKeys(n.keys, n.logger), Cluster: (*cluster)(n), Mesh: (*meshDesk)(n), Health: (*health)(n),
		Maintenance: (*maintenance)(n), Process: queen, Draining: n.draining.Load, Gatherer: n.registry, Registerer: n.registry, Logger: n.logger,
	})
	if err != nil {
		return err
	}
	n.server = &http.Server{
		Handler: handler, ReadHeaderTimeout: 10 * time.Second, IdleTimeout: 2 * time.Minute, MaxHeaderBytes: 64 << 10,
		DisableGeneralOptionsHandler: true,
		ErrorLog:                     zap.NewStdLog(n.logger.Named("http")),
	}
	n.parts.start("http", func(context.Context) error {
		if err := n.server.Serve(n.listener); !errors.Is(err, http.ErrServerClosed) {
			return err
		}
		return nil
	})
	n.parts.undo("http", n.server.Shutdown)
	return nil
}

// settings are the fields of the boot line.
func (n *Node) settings() []zap.Field {
	fields := []zap.Field{
		zap.String("version", n.config.Version), zap.String("name", n.config.Name), zap.Stringer("start_id", n.startID),
		zap.Stringer("http", n.listener.Addr()), zap.String("url", n.httpURL),
		zap.Stringer("cluster_id", n.installation.ClusterID), zap.Int("lanes", n.config.Lanes), zap.Int("pool", n.config.Pool),
		zap.Bool("tenancy", n.config.Tenancy), zap.Bool("jwt", n.config.JWTEnabled),
		zap.Bool("never_lead", n.config.NeverLead),
		zap.Duration("drain_delay", n.config.DrainDelay), zap.String("subscription_mode", n.config.SubscriptionMode),
		zap.String("encryption_key", n.keys.Current()),
	}
	if n.mesh == nil {
		return append(fields, zap.String("mesh", "off"))
	}
	return append(fields, zap.String("mesh", n.mesh.Address()), zap.Int("mesh_frame_max", n.config.MeshFrameMax),
		zap.String("mesh_keys", string(n.heldKeys().Source)))
}

// URL is where clients on this machine or network reach the broker, once it has started.
func (n *Node) URL() string { return n.httpURL }

func (n *Node) hurryHeartbeat() { signal(n.heartbeatNow) }

// signal leaves a token, unless one lies there already.
func signal(to chan<- struct{}) {
	select {
	case to <- struct{}{}:
	default:
	}
}
