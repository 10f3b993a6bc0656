package broker

import (
	"context"
	"errors"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/google/uuid"

	"waggle/pg"
)

// maxName bounds names of queues, partitions and groups, in bytes.
const maxName = 1024

// Limits bound what one tenant may have; 0 takes the default. They keep a runaway client from filling the catalog, and
// are counted now and then: a tenant may end up a little above them.
type Limits struct {
	Queues     int64
	Partitions int64
	Groups     int64
}

var defaultLimits = Limits{Queues: 100_000, Partitions: 10_000_000, Groups: 100_000}

// ErrLimit refuses to make one more queue, partition or group for a tenant that has as many as it may.
var ErrLimit = errors.New("limit of the tenant reached")

// errName refuses a name that storage cannot hold.
var errName = errors.New("name too long or not text")

func storableName(name string) bool {
	return len(name) <= maxName && utf8.ValidString(name) && strings.IndexByte(name, 0) < 0
}

// storableText makes any text one that storage can hold.
func storableText(text string) string {
	return strings.ReplaceAll(strings.ToValidUTF8(text, "\uFFFD"), "\x00", "\uFFFD")
}

// countFor is how long a count is believed; refusalFor, when it would refuse.
const (
	countFor     = time.Minute
	refusalFor   = time.Second
	maxCountings = 10_000
)

// limiter remembers what tenants have.
type limiter struct {
	db  *pg.DB
	max Limits

	mu      sync.Mutex // guards tenants
	tenants map[uuid.UUID]*counting
}

type counting struct {
	at  time.Time
	has pg.TenantCounts
}

func newLimiter(db *pg.DB, max Limits) *limiter {
	orDefault(&max.Queues, defaultLimits.Queues)
	orDefault(&max.Partitions, defaultLimits.Partitions)
	orDefault(&max.Groups, defaultLimits.Groups)
	return &limiter{db: db, max: max, tenants: map[uuid.UUID]*counting{}}
}

// admit lets the tenant have so much more, or refuses with ErrLimit.
func (l *limiter) admit(ctx context.Context, tenant uuid.UUID, more pg.TenantCounts) error {
	if l.take(tenant, more, countFor) {
		return nil
	}
	if l.knows(tenant, refusalFor) {
		return ErrLimit
	}
	has, err := l.db.CountTenant(ctx, tenant)
	if err != nil {
		return err
	}
	l.mu.Lock()
	if len(l.tenants) >= maxCountings {
		clear(l.tenants)
	}
	l.tenants[tenant] = &counting{at: time.Now(), has: has}
	l.mu.Unlock()
	if !l.take(tenant, more, countFor) {
		return ErrLimit
	}
	return nil
}

func (l *limiter) knows(tenant uuid.UUID, age time.Duration) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	c := l.tenants[tenant]
	return c != nil && time.Since(c.at) <= age
}

// take adds to a count that is young enough, if the sum is within the limits.
func (l *limiter) take(tenant uuid.UUID, more pg.TenantCounts, age time.Duration) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	c := l.tenants[tenant]
	if c == nil || time.Since(c.at) > age {
		return false
	}
	sum := pg.TenantCounts{
		Queues: c.has.Queues + more.Queues, Partitions: c.has.Partitions + more.Partitions, Groups: c.has.Groups + more.Groups,
	}
	if more.Queues > 0 && sum.Queues > l.max.Queues || more.Partitions > 0 && sum.Partitions > l.max.Partitions ||
		more.Groups > 0 && sum.Groups > l.max.Groups {
		return false
	}
	c.has = sum
	return true
}

func orDefault[T comparable](value *T, otherwise T) {
	var zero T
	if *value == zero {
		*value = otherwise
	}
}
