package auth

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/MicahParks/jwkset"
	"github.com/MicahParks/keyfunc/v3"
	"github.com/golang-jwt/jwt/v5"
	"go.uber.org/zap"
)

const (
	// refetchPause is the least time between two fetches that unknown key ids cause.
	refetchPause = 5 * time.Second
	// maxKeySet bounds the document.
	maxKeySet = 1 << 20
	// A failed fetch is repeated sooner than a good one, with a growing pause.
	firstRetry = 5 * time.Second
	maxRetry   = time.Minute
)

// keySet is what one fetch brought, and the tokens that were verified with it. It never changes but for its memory.
type keySet struct {
	keys   keyfunc.Keyfunc
	memory *remembered
}

// newKeySet leaves out keys that cannot be used: one that we do not understand must not take the others with it.
func newKeySet(document []byte) (set *keySet, unusable int, err error) {
	var content struct {
		Keys *[]json.RawMessage `json:"keys"`
	}
	if err := json.Unmarshal(document, &content); err != nil {
		return nil, 0, fmt.Errorf("decode key set: %w", err)
	}
	if content.Keys == nil {
		return nil, 0, errors.New("decode key set: there is no list of keys")
	}
	var keys []jwkset.JWK
	for _, raw := range *content.Keys {
		key, err := jwkset.NewJWKFromRawJSON(raw, jwkset.JWKMarshalOptions{}, jwkset.JWKValidateOptions{})
		if err != nil {
			unusable++
			continue
		}
		keys = append(keys, key)
	}
	if len(keys) == 0 && unusable > 0 {
		return nil, 0, fmt.Errorf("none of %d keys can be used", unusable)
	}
	storage := jwkset.NewMemoryStorage()
	if err := storage.KeyReplaceAll(context.Background(), keys); err != nil {
		return nil, 0, fmt.Errorf("store key set: %w", err)
	}
	lookup, err := keyfunc.New(keyfunc.Options{Storage: storage, UseWhitelist: []jwkset.USE{"", jwkset.UseSig}})
	if err != nil {
		return nil, 0, fmt.Errorf("prepare key set: %w", err)
	}
	return &keySet{keys: lookup, memory: newRemembered()}, unusable, nil
}

// find returns the key with the token's id; for a token without one, the first key of the kind that its algorithm takes.
func (s *keySet) find(t *jwt.Token) (any, error) {
	id, given := t.Header["kid"]
	if !given {
		all, err := s.keys.VerificationKeySet(context.Background())
		if err != nil {
			return nil, unknownKey
		}
		for _, key := range all.Keys {
			if fits(family(t.Method.Alg()), key) {
				return key, nil
			}
		}
		return nil, unknownKey
	}
	if _, isText := id.(string); !isText {
		return nil, badHeader
	}
	key, err := s.keys.Keyfunc(t)
	switch {
	case errors.Is(err, jwkset.ErrKeyNotFound):
		return nil, unknownKey
	case err != nil: // the key is for another algorithm, or not for signatures
		return nil, unsupportedAlgorithm
	}
	return key, nil
}

// published fetches a key set. All fetching is done by run; requests ask for a round and wait for its end.
type published struct {
	url     string
	refresh time.Duration
	timeout time.Duration
	client  *http.Client
	logger  *zap.Logger
	set     atomic.Pointer[keySet]
	demand  chan struct{}
	now     func() time.Time

	mu sync.Mutex // guards what follows
	// round is closed when the fetch ends that is under way or asked for; nil when there is none.
	round chan struct{}
	// asked is when an unknown key id last caused a fetch.
	asked time.Time
}

func newPublished(url string, refresh, timeout time.Duration, logger *zap.Logger) *published {
	p := &published{
		url: url, refresh: refresh, timeout: timeout, logger: logger.Named("auth"), demand: make(chan struct{}, 1),
		now:    time.Now,
		client: &http.Client{Transport: &http.Transport{Proxy: http.ProxyFromEnvironment, IdleConnTimeout: time.Minute}},
		// The first fetch counts as asked for, so that the first requests wait for it.
		round: make(chan struct{}),
	}
	empty, _, err := newKeySet([]byte(`{"keys":[]}`))
	if err != nil {
		panic(err) // a constant
	}
	p.set.Store(empty)
	return p
}

func (p *published) current() *keySet { return p.set.Load() }

// run fetches at once, then on time and on demand.
func (p *published) run(ctx context.Context) error {
	defer p.client.CloseIdleConnections()
	defer p.finish()
	retry := firstRetry
	for {
		p.begin()
		wait := p.refresh
		if err := p.fetch(ctx); err != nil && ctx.Err() == nil {
			wait = min(retry, p.refresh)
			retry = min(2*retry, maxRetry)
			p.logger.Warn("keys for tokens cannot be fetched; the last ones stay", zap.String("code", "WG0043"), zap.String("url", p.url),
				zap.Duration("next_try", wait), zap.Error(err))
		} else {
			retry = firstRetry
		}
		p.finish()
		timer := time.NewTimer(wait)
		select {
		case <-ctx.Done():
			timer.Stop()
			return nil
		case <-timer.C:
		case <-p.demand:
			timer.Stop()
		}
	}
}

// begin makes sure that there is a round that requests can join. What was asked for is this round.
func (p *published) begin() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.round == nil {
		p.round = make(chan struct{})
	}
	select {
	case <-p.demand:
	default:
	}
}

func (p *published) finish() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.round != nil {
		close(p.round)
		p.round = nil
	}
}

func (p *published) fetch(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, p.timeout)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, p.url, nil)
	if err != nil {
		return fmt.Errorf("build request: %w", err)
	}
	request.Header.Set("Accept", "application/json")
	response, err := p.client.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("answer %s", response.Status)
	}
	document, err := io.ReadAll(io.LimitReader(response.Body, maxKeySet+1))
	switch {
	case err != nil:
		return fmt.Errorf("read key set: %w", err)
	case len(document) > maxKeySet:
		return fmt.Errorf("key set is larger than %d bytes", maxKeySet)
	}
	set, unusable, err := newKeySet(document)
	if err != nil {
		return err
	}
	if unusable > 0 {
		p.logger.Warn("some keys for tokens cannot be used", zap.String("code", "WG0044"), zap.String("url", p.url), zap.Int("keys", unusable))
	}
	p.set.Store(set)
	return nil
}

// refetch waits for a fetch: the one under way, or a new one if the last that was asked for is long enough ago. It returns
// the keys known then. If others than the seen ones have come in the meantime, these are tried first.
func (p *published) refetch(ctx context.Context, seen *keySet) *keySet {
	p.mu.Lock()
	if set := p.current(); set != seen {
		p.mu.Unlock()
		return set
	}
	round := p.round
	if round == nil {
		if !p.asked.IsZero() && p.now().Sub(p.asked) < refetchPause {
			p.mu.Unlock()
			return p.current()
		}
		p.asked = p.now()
		round = make(chan struct{})
		p.round = round
		select {
		case p.demand <- struct{}{}:
		default: // one is there already
		}
	}
	p.mu.Unlock()
	patience := time.NewTimer(p.timeout + time.Second)
	defer patience.Stop()
	select {
	case <-round:
	case <-patience.C:
	case <-ctx.Done():
	}
	return p.current()
}
