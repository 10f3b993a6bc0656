package node

import (
	"errors"
	"fmt"
	"net"
	"os"
	"regexp"
	"strings"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"waggle/api/auth"
	"waggle/broker"
	"waggle/broker/seal"
	"waggle/mesh"
)

// Config is everything that a broker is told. DefaultConfig has the values of the flags' defaults.
type Config struct {
	Version string
	Name    string

	DatabaseURL string
	DirectURL   string
	// Pool bounds the connections for everything but the leader session.
	Pool          int
	ApplySchema   bool
	StartPatience time.Duration

	Listen        string
	MeshOff       bool
	MeshListen    string
	MeshAdvertise string
	MeshJoin      []string
	MeshFrameMax  int
	// MeshInterestOff lets this broker be sent all wakes, and send all.
	MeshInterestOff bool
	// MeshKeyFile is the path of a file with the mesh keys, in place of the database's; Validate reads it. MeshPlaintext
	// switches encryption off.
	MeshKeyFile   string
	MeshPlaintext bool
	meshKeys      [][]byte

	NeverLead         bool
	DrainDelay        time.Duration
	Lanes             int
	RetentionInterval time.Duration
	StatsInterval     time.Duration
	MetricsFlush      time.Duration
	MetricsRetention  time.Duration
	// TraceRetention is how long traces are kept.
	TraceRetention time.Duration
	// DeadLetterRetention is how long dead letters are kept, zero for ever.
	DeadLetterRetention time.Duration
	// PartitionIdle is after how long without a write an emptied partition is taken away, zero for never.
	PartitionIdle time.Duration

	Tenancy          bool
	TrustedProxy     bool
	MaxBodyBytes     int64
	PopTimeout       time.Duration
	SafeFloor        time.Duration
	SubscriptionMode string
	// PopAutopilot is on, shadow or off.
	PopAutopilot string

	// JWTEnabled makes requests need a token; JWT says of what kind.
	JWTEnabled bool
	JWT        auth.Settings
	// EncryptionKey is a key, EncryptionKeysFile the path of a list of them; Validate reads both.
	EncryptionKey      string
	EncryptionKeysFile string
	encryptionKeys     []seal.Key
}

// maxLanes is far more than any database gains from.
const maxLanes = 16

// DefaultConfig is a broker of which only the database is unknown.
func DefaultConfig(version string) Config {
	return Config{
		Version: version, Pool: 16, ApplySchema: true, StartPatience: time.Minute, Listen: ":6632", MeshListen: ":6633",
		MeshFrameMax: mesh.FrameMax, DrainDelay: 5 * time.Second, Lanes: 2, RetentionInterval: 5 * time.Second,
		StatsInterval: 10 * time.Second, MetricsFlush: time.Minute, MetricsRetention: 90 * 24 * time.Hour,
		TraceRetention: 30 * 24 * time.Hour, PartitionIdle: 30 * 24 * time.Hour,
		MaxBodyBytes: 64 << 20, PopTimeout: 30 * time.Second, SafeFloor: 30 * time.Second, SubscriptionMode: "new", PopAutopilot: "on",
		JWT: auth.DefaultSettings(),
	}
}

// ConfigError is a setting that cannot be used.
type ConfigError struct {
	Flag  string
	Value string
	Cause string
}

func (e *ConfigError) Error() string {
	variable := "WAGGLE_" + strings.ToUpper(strings.ReplaceAll(e.Flag, "-", "_"))
	return fmt.Sprintf("--%s (%s) %q: %s", e.Flag, variable, e.Value, e.Cause)
}

var brokerName = regexp.MustCompile(`^[A-Za-z0-9._-]{1,64}$`)

// Validate fills in what follows from the machine and reports everything that is wrong, at once. A database URL never
// appears in an error with its password.
func (c *Config) Validate() error {
	var errs []error
	refuse := func(flag string, value any, cause string) {
		errs = append(errs, &ConfigError{Flag: flag, Value: fmt.Sprint(value), Cause: cause})
	}
	if c.Name == "" {
		c.Name = hostName()
	}
	if !brokerName.MatchString(c.Name) {
		refuse("name", c.Name, "must be 1 to 64 of A-Z, a-z, 0-9, dot, underscore and dash")
	}
	c.checkDatabase(refuse)
	c.readEncryptionKeys(refuse)
	c.readMeshKeys(refuse)
	for _, setting := range [][2]string{{"listen", c.Listen}, {"mesh-listen", c.MeshListen}} {
		if _, _, err := net.SplitHostPort(setting[1]); err != nil {
			refuse(setting[0], setting[1], "must be host:port or :port")
		}
	}
	bounds := func(flag string, value, low, high int) {
		if value < low || value > high {
			refuse(flag, value, fmt.Sprintf("must be between %d and %d", low, high))
		}
	}
	bounds("lanes", c.Lanes, 1, maxLanes)
	bounds("pool", c.Pool, min(max(c.Lanes, 1), maxLanes)+4, 1000)
	bounds("mesh-frame-max", c.MeshFrameMax, mesh.FrameMin, mesh.FrameMax)
	notNegative := func(flag string, value time.Duration) {
		if value < 0 {
			refuse(flag, value, "must not be negative")
		}
	}
	notNegative("drain-delay", c.DrainDelay)
	notNegative("start-patience", c.StartPatience)
	if c.RetentionInterval < 100*time.Millisecond {
		refuse("retention-interval", c.RetentionInterval, "must be at least 100ms")
	}
	if c.StatsInterval < 100*time.Millisecond {
		refuse("stats-interval", c.StatsInterval, "must be at least 100ms")
	}
	if c.MetricsFlush < time.Second || c.MetricsFlush > time.Hour {
		refuse("metrics-flush", c.MetricsFlush, "must be between 1s and 1h")
	}
	if c.MetricsRetention < time.Hour {
		refuse("metrics-retention-days", c.MetricsRetention, "must be at least one hour")
	}
	if c.DeadLetterRetention != 0 && c.DeadLetterRetention < time.Minute {
		refuse("dlq-retention", c.DeadLetterRetention, "must be 0 or at least 1m")
	}
	if c.PartitionIdle < 0 {
		refuse("partition-cleanup-days", int(c.PartitionIdle/(24*time.Hour)), "must not be negative")
	}
	if c.TraceRetention < time.Minute {
		refuse("trace-retention", c.TraceRetention, "must be at least 1m")
	}
	switch broker.AutopilotMode(c.PopAutopilot) {
	case broker.AutopilotOn, broker.AutopilotShadow, broker.AutopilotOff:
	default:
		refuse("pop-autopilot", c.PopAutopilot, "must be on, shadow or off")
	}
	if c.MaxBodyBytes < 1<<10 || c.MaxBodyBytes > 1<<30 {
		refuse("max-body-bytes", c.MaxBodyBytes, "must be between 1024 and 1073741824")
	}
	if c.Tenancy && !c.TrustedProxy {
		refuse("tenancy-header", true, "the header is believed from anybody; set --trusted-proxy "+
			"(or QUEEN_KV_TRUSTED_PROXY=1) to state that a proxy in front sets it")
	}
	if c.JWTEnabled {
		c.JWT.Validate(func(setting, value, cause string) { refuse("jwt-"+setting, value, cause) })
	}
	return errors.Join(errs...)
}

// DirectURL returns where a command reaches the database past any pooler, or every error in the two URLs at once.
func DirectURL(databaseURL, directURL string) (string, error) {
	var errs []error
	c := Config{DatabaseURL: databaseURL, DirectURL: directURL}
	c.checkDatabase(func(flag string, value any, cause string) {
		errs = append(errs, &ConfigError{Flag: flag, Value: fmt.Sprint(value), Cause: cause})
	})
	return c.DirectURL, errors.Join(errs...)
}

func (c *Config) checkDatabase(refuse func(string, any, string)) {
	for _, setting := range [][2]string{{"database-url", c.DatabaseURL}, {"direct-url", c.DirectURL}} {
		flag, url := setting[0], setting[1]
		if url == "" {
			continue
		}
		if _, err := pgxpool.ParseConfig(url); err != nil {
			refuse(flag, "...", strings.ReplaceAll(err.Error(), url, "the url"))
		}
	}
	if c.DatabaseURL == "" && c.DirectURL == "" && os.Getenv("PGHOST") == "" && os.Getenv("PGDATABASE") == "" && os.Getenv("PGSERVICE") == "" {
		refuse("database-url", "", "no database is named; set it, DATABASE_URL, PG_HOST or libpq's PGHOST")
	}
	if c.DirectURL == "" {
		c.DirectURL = c.DatabaseURL
	}
}

// hostName makes a broker name of the machine's.
func hostName() string {
	name, err := os.Hostname()
	if err != nil {
		return "broker"
	}
	name = regexp.MustCompile(`[^A-Za-z0-9._-]`).ReplaceAllString(name, "-")
	return name[:min(len(name), 64)]
}
