package client

import (
	"errors"
	"fmt"
	"hash/fnv"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync/atomic"
	"time"
)

const (
	// DefaultURL is where a broker listens unless told otherwise.
	DefaultURL = "http://127.0.0.1:6632"
	// TenantHeader names the tenant of a request to brokers that run with tenancy on.
	TenantHeader = "X-Queen-Tenant"

	defaultCallTimeout = 30 * time.Second
	defaultDownFor     = 5 * time.Second
	defaultRounds      = 3
	dialTimeout        = 2 * time.Second
	// waitAllowance is how much longer than its own timeout a waiting pop is given to answer.
	waitAllowance = 5 * time.Second
	idleConns     = 1024
)

// Config says which brokers to use and how. The zero value of each field is a sensible default.
type Config struct {
	// URLs are the brokers' base URLs; none means DefaultURL. A URL without a scheme is taken as http.
	URLs []string
	// Token is sent as a bearer token when not empty.
	Token string
	// Tenant is sent in TenantHeader when not empty.
	Tenant string
	// Timeout bounds one attempt of a call; a waiting pop is given its own timeout and five seconds on top.
	Timeout time.Duration
	// DownFor is how long a broker that failed is passed over.
	DownFor time.Duration
	// Rounds is how often a call goes through the brokers before it gives up, with a growing pause between rounds.
	Rounds int
	// HTTP replaces the client's own connection pool. Its Timeout should be zero, or parked pops are cut off.
	HTTP *http.Client
}

// Client calls a cluster. It is safe for concurrent use.
type Client struct {
	config  Config
	http    *http.Client
	owned   *http.Transport
	servers []*server
}

// server is one broker's address and the moment until which it is passed over.
type server struct {
	base      string
	downUntil atomic.Int64
}

// New checks the configuration; it does not connect.
func New(config Config) (*Client, error) {
	if len(config.URLs) == 0 {
		config.URLs = []string{DefaultURL}
	}
	if config.Timeout <= 0 {
		config.Timeout = defaultCallTimeout
	}
	if config.DownFor <= 0 {
		config.DownFor = defaultDownFor
	}
	if config.Rounds <= 0 {
		config.Rounds = defaultRounds
	}
	c := &Client{config: config, http: config.HTTP}
	for _, text := range config.URLs {
		base, err := baseURL(text)
		if err != nil {
			return nil, err
		}
		c.servers = append(c.servers, &server{base: base})
	}
	if c.http == nil {
		c.owned = newTransport()
		c.http = &http.Client{Transport: c.owned, CheckRedirect: refuseRedirect}
	}
	return c, nil
}

// URLs are the base URLs the client uses, in the order they were given.
func (c *Client) URLs() []string {
	urls := make([]string, len(c.servers))
	for i, s := range c.servers {
		urls[i] = s.base
	}
	return urls
}

// Close gives the client's idle connections back.
func (c *Client) Close() {
	if c.owned != nil {
		c.owned.CloseIdleConnections()
	}
}

func baseURL(text string) (string, error) {
	text = strings.TrimSpace(text)
	if !strings.Contains(text, "://") {
		text = "http://" + text
	}
	parsed, err := url.Parse(text)
	if err != nil {
		return "", fmt.Errorf("parse broker url: %w", err)
	}
	if parsed.Scheme != "http" && parsed.Scheme != "https" {
		return "", fmt.Errorf("broker url %q: scheme must be http or https", text)
	}
	if parsed.Host == "" {
		return "", fmt.Errorf("broker url %q names no host", text)
	}
	if parsed.RawQuery != "" || parsed.Fragment != "" {
		return "", fmt.Errorf("broker url %q must not carry a query or fragment", text)
	}
	return strings.TrimRight(parsed.String(), "/"), nil
}

// newTransport keeps enough idle connections for many concurrent calls: the library's default of two per host would
// open and close a connection for nearly every call.
func newTransport() *http.Transport {
	return &http.Transport{
		Proxy:                 http.ProxyFromEnvironment,
		DialContext:           (&net.Dialer{Timeout: dialTimeout, KeepAlive: 15 * time.Second}).DialContext,
		MaxIdleConns:          0,
		MaxIdleConnsPerHost:   idleConns,
		IdleConnTimeout:       90 * time.Second,
		TLSHandshakeTimeout:   5 * time.Second,
		ExpectContinueTimeout: time.Second,
		DisableCompression:    true,
		WriteBufferSize:       32 << 10,
		ReadBufferSize:        32 << 10,
	}
}

// errRedirect guards against names that a server in between would "clean": no broker ever redirects.
var errRedirect = errors.New("broker answered with a redirect")

func refuseRedirect(*http.Request, []*http.Request) error { return errRedirect }

// order lists the servers for one call: those that are up before those that are down, the one with the base URL first
// first, then the one that key prefers. An empty key keeps the order of the configuration.
func (c *Client) order(key, first string) []*server {
	servers := slices.Clone(c.servers)
	if key != "" && len(servers) > 1 {
		weights := make(map[*server]uint64, len(servers))
		for _, s := range servers {
			h := fnv.New64a()
			h.Write([]byte(s.base))
			h.Write([]byte{0})
			h.Write([]byte(key))
			weights[s] = mix(h.Sum64())
		}
		slices.SortStableFunc(servers, func(a, b *server) int {
			switch {
			case weights[a] > weights[b]:
				return -1
			case weights[a] < weights[b]:
				return 1
			}
			return 0
		})
	}
	if first != "" {
		if at := slices.IndexFunc(servers, func(s *server) bool { return s.base == first }); at > 0 {
			preferred := servers[at]
			servers = slices.Insert(slices.Delete(servers, at, at+1), 0, preferred)
		}
	}
	now := time.Now().UnixNano()
	up := make([]*server, 0, len(servers))
	var down []*server
	for _, s := range servers {
		if s.downUntil.Load() > now {
			down = append(down, s)
		} else {
			up = append(up, s)
		}
	}
	return append(up, down...)
}

// mix spreads FNV's weak high bits: similar URLs and keys would otherwise rank alike.
func mix(x uint64) uint64 {
	x ^= x >> 33
	x *= 0xff51afd7ed558ccd
	x ^= x >> 33
	x *= 0xc4ceb9fe1a85ec53
	return x ^ x>>33
}
