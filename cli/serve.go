package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"

	"waggle/node"
	"waggle/pg/schema"
)

// ServeCmd runs one broker. The env tags hold the names that the compatible broker and common platforms use for the same
// settings.
type ServeCmd struct {
	Name string `help:"Name of this broker, up to 64 of A-Z a-z 0-9 . _ -; default the host name."`

	Database
	Pool        int    `default:"16" help:"Connections to PostgreSQL, besides the leader's one."`
	Lanes       int    `default:"2" help:"Flushes in flight at one time."`
	ApplySchema bool   `env:"QUEEN_APPLY_SCHEMA" default:"true" negatable:"" help:"Make or upgrade the tables at start."`
	Patience    string `name:"start-patience" default:"1m" help:"How long to wait for the database at start."`

	Listen   string `help:"Address for HTTP. Default :6632."`
	Port     string `env:"PORT" hidden:""`
	BindAddr string `env:"QUEEN_BIND_ADDR" hidden:""`

	Mesh          string   `default:"on" enum:"on,off" help:"Gossip with the other brokers: on or off."`
	MeshListen    string   `default:":6633" help:"Address for gossip, tcp and udp."`
	MeshAdvertise string   `help:"Host or host:port that others reach the mesh address under."`
	MeshJoin      []string `sep:"," help:"Further host:port to join; brokers on one database find each other without."`
	MeshFrameMax  int      `default:"2" help:"Highest frame version to speak, for upgrades."`
	MeshInterest  string   `default:"on" enum:"on,off" help:"Leave out wakes that peers have no use for: on or off."`
	MeshKeyFile   string   `help:"File with the mesh keys in place of the database's: one a line, hexadecimal digits or base64, the one to encrypt with first."`
	// Off has to be said: nothing else makes a mesh speak in clear text.
	MeshEncryption string `default:"on" enum:"on,off" help:"Encrypt gossip: on or off. All brokers need the same."`

	NeverLead         bool          `help:"Never do the background work."`
	DrainDelay        time.Duration `default:"5s" help:"How long clients are let go before the listener closes."`
	RetentionInterval string        `env:"RETENTION_INTERVAL" default:"5s" help:"How often retention runs; a bare number counts milliseconds."`

	TraceRetention       time.Duration `default:"720h" help:"How long traces are kept."`
	DLQRetention         time.Duration `name:"dlq-retention" default:"0s" help:"How long dead letters are kept; 0 keeps them until somebody deletes them."`
	PartitionCleanupDays int           `env:"PARTITION_CLEANUP_DAYS" default:"30" help:"After how many days without a write a partition is taken away that retention has emptied; 0 keeps all."`

	MetricsFlush         string `env:"METRICS_FLUSH_MS" default:"1m" help:"How often a broker writes what it did; a bare number counts milliseconds."`
	MetricsRetentionDays int    `env:"METRICS_RETENTION_DAYS" default:"90" help:"How many days that is kept."`
	StatsInterval        string `env:"STATS_INTERVAL_MS" default:"10s" help:"How often the counters of queues are brought up to date; a bare number counts milliseconds."`
	RetainedBytes        string `name:"retained-bytes-interval" env:"RETAINED_BYTES_INTERVAL_MS" hidden:""`

	TenancyHeader    bool   `env:"QUEEN_TENANCY_HEADER" help:"Let the header x-queen-tenant choose the tenant."`
	TrustedProxy     bool   `env:"QUEEN_KV_TRUSTED_PROXY" help:"State that a proxy in front sets x-queen-tenant."`
	MaxBodyBytes     int64  `env:"QUEEN_MAX_BODY_BYTES" default:"67108864" help:"Largest request body."`
	DefaultTimeout   string `env:"DEFAULT_TIMEOUT,POP_DEFAULT_TIMEOUT_MS" default:"30s" help:"How long a waiting pop parks by default; a bare number counts milliseconds."`
	FetchSafeFloor   string `env:"QUEEN_FETCH_SAFE_FLOOR_MS" default:"30s" help:"How old the safe time of changed partitions may be before it is reported as degraded; a bare number counts milliseconds."`
	SubscriptionMode string `name:"default-subscription-mode" env:"DEFAULT_SUBSCRIPTION_MODE" default:"new" help:"Where a group starts whose first pop does not say: new or all."`
	PopAutopilot     string `env:"QUEEN_POP_AUTOPILOT" default:"on" help:"Whether pops may leave batch and partitions to the broker: on, off, or shadow (choose and count only)."`

	JWT                JWTFlags `embed:"" prefix:"jwt-"`
	EncryptionKey      string   `env:"QUEEN_ENCRYPTION_KEY" secret:"" help:"Key for queues with encryptionEnabled: 32 bytes as hexadecimal digits or base64."`
	EncryptionKeysFile string   `help:"File with lines of 'id key', the key to write with first; see docs/encryption.md."`

	LogLevel     string `default:"info" enum:"debug,info,warn,error" help:"debug, info, warn or error."`
	Check        bool   `help:"Check the configuration, unknown variables included, and exit."`
	EndWithStdin bool   `env:"-" hidden:""`
}

// Run implements the command.
func (c *ServeCmd) Run(ctx context.Context, s *Session) error {
	config, err := c.config(s.Version)
	if err != nil {
		return Fail(ExitUsage, err)
	}
	unknown, err := UnknownVariables(s.Environ)
	if err != nil {
		return err
	}
	logger := newLogger(s.Stderr, c.LogLevel)
	defer func() { _ = logger.Sync() }()
	if c.Check {
		return check(s.Stdout, config, unknown)
	}
	n, err := node.New(config, logger)
	if err != nil {
		return Fail(ExitUsage, err)
	}
	for _, u := range unknown {
		logger.Warn("unknown variable", zap.String("code", "WG0006"), zap.String("name", u.Name), zap.String("nearest_known", u.Nearest))
	}
	if c.EndWithStdin {
		ctx = endWith(ctx, s.Stdin)
	}
	if err := n.Start(ctx); err != nil {
		return serveError(err)
	}
	return serveError(n.Run(ctx))
}

// serveError gives each way in which a broker ends its exit code.
func serveError(err error) error {
	var gate *schema.GateError
	var stranger *schema.StrangerError
	var shape *schema.ShapeError
	var address *node.AddressError
	var database *node.DatabaseError
	var refused *node.ConfigError
	switch {
	case err == nil:
		return nil
	case errors.As(err, &gate), errors.As(err, &stranger), errors.As(err, &shape):
		return Fail(ExitGate, err)
	case errors.As(err, &address):
		return Fail(ExitAddress, err)
	case errors.As(err, &database):
		return Fail(ExitDatabase, err)
	case errors.As(err, &refused):
		return Fail(ExitUsage, err)
	default:
		return err
	}
}

func check(out io.Writer, config node.Config, unknown []UnknownVariable) error {
	errs := []error{config.Validate()}
	for _, u := range unknown {
		errs = append(errs, fmt.Errorf("%s is no variable of waggle; the nearest is %s", u.Name, u.Nearest))
	}
	if err := errors.Join(errs...); err != nil {
		return Fail(ExitUsage, err)
	}
	fmt.Fprintln(out, "configuration is good")
	return nil
}

// endWith ends the context when the reader does: then whoever started this process is gone.
func endWith(ctx context.Context, stdin io.Reader) context.Context {
	ctx, cancel := context.WithCancel(ctx)
	go func() {
		_, _ = io.Copy(io.Discard, stdin)
		cancel()
	}()
	return ctx
}

func (c *ServeCmd) config(version string) (node.Config, error) {
	config := node.DefaultConfig(version)
	var errs []error
	duration := func(flag, text string) time.Duration {
		d, err := parseDuration(text)
		if err != nil {
			errs = append(errs, &node.ConfigError{Flag: flag, Value: text, Cause: "must be a duration such as 5s, or milliseconds"})
		}
		return d
	}
	config.Name, config.DatabaseURL, config.DirectURL = c.Name, c.Database.url(), c.DirectURL
	config.Pool, config.Lanes, config.ApplySchema = c.Pool, c.Lanes, c.ApplySchema
	config.StartPatience = duration("start-patience", c.Patience)
	switch {
	case c.Listen != "":
		config.Listen = c.Listen
	case c.Port != "" || c.BindAddr != "":
		port := c.Port
		if port == "" {
			port = "6632"
		}
		config.Listen = net.JoinHostPort(c.BindAddr, port)
	}
	config.MeshOff, config.MeshListen, config.MeshAdvertise = c.Mesh == "off", c.MeshListen, c.MeshAdvertise
	config.MeshJoin, config.MeshFrameMax, config.MeshInterestOff = c.MeshJoin, c.MeshFrameMax, c.MeshInterest == "off"
	config.MeshKeyFile, config.MeshPlaintext = c.MeshKeyFile, c.MeshEncryption == "off"
	config.NeverLead, config.DrainDelay = c.NeverLead, c.DrainDelay
	config.RetentionInterval = duration("retention-interval", c.RetentionInterval)
	config.TraceRetention, config.DeadLetterRetention = c.TraceRetention, c.DLQRetention
	config.PartitionIdle = time.Duration(c.PartitionCleanupDays) * 24 * time.Hour
	config.StatsInterval = duration("stats-interval", c.StatsInterval)
	config.MetricsFlush = duration("metrics-flush", c.MetricsFlush)
	config.MetricsRetention = time.Duration(c.MetricsRetentionDays) * 24 * time.Hour
	config.Tenancy, config.TrustedProxy, config.MaxBodyBytes = c.TenancyHeader, c.TrustedProxy, c.MaxBodyBytes
	config.PopTimeout = duration("default-timeout", c.DefaultTimeout)
	config.SafeFloor = duration("fetch-safe-floor", c.FetchSafeFloor)
	config.SubscriptionMode, config.PopAutopilot = c.SubscriptionMode, c.PopAutopilot
	c.JWT.apply(&config, &errs)
	config.EncryptionKey, config.EncryptionKeysFile = c.EncryptionKey, c.EncryptionKeysFile
	if err := config.Validate(); err != nil {
		errs = append(errs, err)
	}
	return config, errors.Join(errs...)
}

// parseDuration takes Go's notation, and a bare number as milliseconds.
func parseDuration(text string) (time.Duration, error) {
	if text != "" && strings.Trim(text, "0123456789") == "" {
		text += "ms"
	}
	return time.ParseDuration(text)
}

// newLogger writes one JSON object a line.
func newLogger(out io.Writer, level string) *zap.Logger {
	parsed, err := zapcore.ParseLevel(level)
	if err != nil {
		parsed = zapcore.InfoLevel
	}
	encoder := zap.NewProductionEncoderConfig()
	encoder.EncodeTime = zapcore.RFC3339NanoTimeEncoder
	encoder.EncodeDuration = zapcore.StringDurationEncoder
	encoder.TimeKey = "time"
	return zap.New(zapcore.NewCore(zapcore.NewJSONEncoder(encoder), zapcore.Lock(zapcore.AddSync(out)), parsed))
}
