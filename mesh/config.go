package mesh

import (
	"context"
	"errors"
	"fmt"
	"net"
	"regexp"
	"strconv"

	"github.com/google/uuid"
	"github.com/hashicorp/memberlist"
	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"
)

// ErrAddressInUse says that another process listens on the mesh address.
var ErrAddressInUse = errors.New("mesh address already in use")

// RegistryMember is one row of the broker registry.
type RegistryMember struct {
	Name    string
	StartID uuid.UUID
	// Address is the advertised ip:port of the broker's mesh; empty for a broker that runs without one.
	Address string
	// HTTP is the broker's base address for clients.
	HTTP string
	// Frames is what the broker wrote into its row; the zero value means that it is not known.
	Frames FrameRange
	// Left says that the broker signed off.
	Left bool
}

// Registry is where brokers find each other.
type Registry interface {
	// Live returns the brokers whose heartbeat is fresh, and those that signed off within the last minute with Left
	// set. Freshness is judged by the clock of the database. This broker's own row may be among them.
	Live(ctx context.Context) ([]RegistryMember, error)
}

// RepairReason says why hints may have been missed.
type RepairReason string

// The reasons for a repair.
const (
	// RepairGap: frames of a peer were lost.
	RepairGap RepairReason = "gap"
	// RepairNewPeer: a peer is new to this broker, or this broker to it.
	RepairNewPeer RepairReason = "new peer"
	// RepairRejoin: a peer is back that was, on one side at least, believed to be gone.
	RepairRejoin RepairReason = "rejoin"
	// RepairOverflow: the handler was too slow and frames were dropped before it.
	RepairOverflow RepairReason = "overflow"
)

// Handler is who the hints are for. All methods are called from one goroutine, one at a time, and should return
// quickly: while one runs, hints wait in a bounded inbox and are dropped when it is full. Items may be kept.
type Handler interface {
	// Wake says where something new may be.
	Wake(items []Wake)
	// Invalidate says what caches should forget.
	Invalidate(items []Invalidation)
	// Repair says that hints may have been missed: ready sets with parked pops are to be rebuilt from the database
	// and queue configurations read again. It is called at most once per 100 ms.
	Repair(reason RepairReason)
	// LeaderHint says that the leadership may be free.
	LeaderHint()
}

// Config is all that a mesh needs to know.
type Config struct {
	// Name is the broker's name: at most 64 of A-Z, a-z, 0-9, dot, underscore and dash.
	Name string
	// StartID is new for every start of the process, a UUIDv7.
	StartID uuid.UUID
	// Label is the cluster id; packets with another one are dropped.
	Label string
	// Build is the version of this build, at most 64 bytes.
	Build string
	// HTTP is this broker's base address for clients, at most 128 bytes.
	HTTP string
	// Schema is what schema this build works with.
	Schema SchemaRange

	// Listen is host:port for TCP and UDP; the host is an IP address or empty for all, port 0 lets the kernel choose
	// one that is free for both.
	Listen string
	// Advertise is the host, or host:port, that others reach this broker at. The host may be a name, which is resolved
	// once. Without a port it is the one listened on. Empty means what AdvertiseIP makes of Listen.
	Advertise string
	// Seeds are further host:port to join; names are resolved at each attempt.
	Seeds []string

	// FrameMax pins the highest frame version to read and write; 0 means the highest this build knows.
	FrameMax uint8

	// Keys is the keyring: each of 16, 24 or 32 bytes; the first one encrypts, all decrypt.
	Keys [][]byte
	// Plaintext switches encryption off. It must be set exactly when Keys is empty.
	Plaintext bool
	// ReloadKeys returns the keyring as it is now. It is called after a packet that could not be decrypted, at most once
	// every 10 s; nil keys mean that it has called SetKeys itself, or that there is nothing to change. A nil function means
	// that keys do not change.
	ReloadKeys func(ctx context.Context) ([][]byte, error)

	Registry Registry
	Handler  Handler
	// Interests lets peers leave out wakes that do nothing here, and this broker those that do nothing there. Nil wants
	// all and sends all.
	Interests  Interests
	Logger     *zap.Logger
	Registerer prometheus.Registerer

	// Transport replaces the sockets, for tests; Listen and Advertise are not used then.
	Transport memberlist.Transport
}

var namePattern = regexp.MustCompile(`^[A-Za-z0-9._-]{1,64}$`)

// frames is the range of versions this broker reads and writes.
func (c *Config) frames() FrameRange {
	if c.FrameMax == 0 {
		return FrameRange{Min: FrameMin, Max: FrameMax}
	}
	return FrameRange{Min: FrameMin, Max: c.FrameMax}
}

func (c *Config) meta() Meta {
	return Meta{StartID: c.StartID, Frames: c.frames(), Schema: c.Schema, Build: c.Build, HTTP: c.HTTP}
}

// validate returns everything that is wrong with the configuration at once.
func (c *Config) validate() error {
	var errs []error
	refuse := func(wrong bool, format string, args ...any) {
		if wrong {
			errs = append(errs, fmt.Errorf(format, args...))
		}
	}
	refuse(!namePattern.MatchString(c.Name), "broker name %q is not 1 to 64 of A-Z a-z 0-9 . _ -", c.Name)
	refuse(c.StartID == uuid.UUID{}, "start id is missing")
	refuse(c.Label == "" || len(c.Label) > 64, "cluster id is not 1 to 64 bytes long")
	refuse(len(c.Build) > buildLimit, "build %q is longer than %d bytes", c.Build, buildLimit)
	refuse(len(c.HTTP) > httpLimit, "http address %q is longer than %d bytes", c.HTTP, httpLimit)
	refuse(c.FrameMax > FrameMax, "frame version %d is not known to this build, the highest is %d", c.FrameMax, FrameMax)
	refuse(c.Plaintext != (len(c.Keys) == 0), "either keys or plaintext has to be chosen")
	for i, key := range c.Keys {
		refuse(memberlist.ValidateKey(key) != nil, "key %d has %d bytes instead of 16, 24 or 32", i, len(key))
	}
	if c.Transport == nil {
		_, _, err := splitListen(c.Listen)
		refuse(err != nil, "mesh listen address %q: %w", c.Listen, err)
	}
	for _, seed := range c.Seeds {
		_, _, err := net.SplitHostPort(seed)
		refuse(err != nil, "mesh seed %q: %w", seed, err)
	}
	refuse(c.Registry == nil || c.Handler == nil || c.Logger == nil || c.Registerer == nil,
		"registry, handler, logger and registerer are required")
	return errors.Join(errs...)
}

// splitListen takes host:port apart; the host is empty or an IP address.
func splitListen(listen string) (host string, port int, err error) {
	host, text, err := net.SplitHostPort(listen)
	if err != nil {
		return "", 0, err
	}
	if host != "" && net.ParseIP(host) == nil {
		return "", 0, fmt.Errorf("host %q is not an IP address", host)
	}
	number, err := strconv.ParseUint(text, 10, 16)
	if err != nil {
		return "", 0, fmt.Errorf("port %q is not a number up to 65535", text)
	}
	return host, int(number), nil
}
