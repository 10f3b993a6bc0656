package auth

import (
	"context"
	"crypto"
	"crypto/sha256"
	"errors"
	"strings"
	"time"

	"github.com/golang-jwt/jwt/v5"
	"go.uber.org/zap"
)

// Verifier decides about requests. It is safe for concurrent use.
type Verifier struct {
	settings Settings
	parser   *jwt.Parser
	now      func() time.Time

	// keys holds, for each accepted algorithm, where its key comes from, or the refusal when there is none.
	keys      map[string]source
	secret    []byte
	publicKey crypto.PublicKey
	published *published
	warnings  []string
	// fixed remembers tokens as long as the keys do not come from outside.
	fixed *remembered
}

// source is where the key of an algorithm comes from.
type source struct {
	kind    sourceKind
	missing *Refusal
}

type sourceKind uint8

const (
	fromNowhere sourceKind = iota
	fromSecret
	fromPublicKey
	fromPublished
)

// New makes a verifier of settings that Validate has nothing against. With JWKSURL in use somebody must call Run.
func New(settings Settings, logger *zap.Logger) *Verifier {
	v := &Verifier{
		settings: settings, now: time.Now, keys: make(map[string]source), secret: []byte(settings.Secret),
		parser: jwt.NewParser(jwt.WithoutClaimsValidation(), jwt.WithStrictDecoding()), fixed: newRemembered(),
	}
	var broken error
	if settings.PublicKey != "" {
		v.publicKey, broken = parsePublicKey(settings.PublicKey)
	} else if settings.JWKSURL != "" {
		v.published = newPublished(settings.JWKSURL, settings.JWKSRefresh, settings.JWKSTimeout, logger)
	}
	for _, algorithm := range algorithms(settings.Algorithm) {
		v.keys[algorithm] = v.source(algorithm, broken)
	}
	v.drop()
	v.warn(broken)
	return v
}

func (v *Verifier) source(algorithm string, broken error) source {
	switch {
	case family(algorithm) == familyHS && len(v.secret) > 0:
		return source{kind: fromSecret}
	case family(algorithm) == familyHS:
		return source{missing: noSecret}
	case broken != nil || v.publicKey != nil && !fits(family(algorithm), v.publicKey):
		return source{missing: badPublicKey}
	case v.publicKey != nil:
		return source{kind: fromPublicKey}
	case v.published != nil:
		return source{kind: fromPublished}
	}
	return source{missing: noPublicKey}
}

// drop leaves algorithms without a key out of the automatic mode, provided that there is any key: whoever gave only a
// public key did not mean to accept secrets, and a stranger's choice of algorithm must not look like our fault.
func (v *Verifier) drop() {
	usable := false
	for _, s := range v.keys {
		usable = usable || s.missing == nil
	}
	if v.settings.Algorithm != algorithmAuto || !usable {
		return
	}
	for algorithm, s := range v.keys {
		if s.missing != nil && (s.missing != badPublicKey || v.publicKey != nil) {
			delete(v.keys, algorithm)
		}
	}
}

func (v *Verifier) warn(broken error) {
	if broken != nil {
		v.warnings = append(v.warnings, "the public key for tokens cannot be used: "+broken.Error())
	}
	missing := map[*Refusal]bool{}
	for _, s := range v.keys {
		missing[s.missing] = true
	}
	if missing[badPublicKey] && broken == nil {
		v.warnings = append(v.warnings, "the public key for tokens is of another kind than "+v.settings.Algorithm+" needs")
	}
	if missing[noSecret] {
		v.warnings = append(v.warnings, "no secret for tokens is set")
	}
	if missing[noPublicKey] {
		v.warnings = append(v.warnings, "neither a public key for tokens nor a JWKS URL is set")
	}
	for _, entry := range v.settings.SkipPaths {
		if !strings.HasPrefix(entry, "/") {
			v.warnings = append(v.warnings, "the skipped path "+entry+" does not begin with a slash and matches nothing")
		}
	}
}

// Warnings say which keys are missing or broken, and what else can hardly be meant. Requests that need such a key are
// answered with 500.
func (v *Verifier) Warnings() []string { return v.warnings }

// Run keeps the published keys fresh until the context ends. Without any it has nothing to do.
func (v *Verifier) Run(ctx context.Context) error {
	if v.published == nil {
		<-ctx.Done()
		return nil
	}
	return v.published.run(ctx)
}

// anyone is who a request without a token comes from.
var anyone = &Identity{}

// Check decides about one request: its method, its path as it was sent, and its Authorization headers.
func (v *Verifier) Check(ctx context.Context, method, path string, headers []string) (*Identity, *Refusal) {
	if v.settings.skips(path) {
		return anyone, nil
	}
	level := LevelOf(method, path)
	if level == Public {
		return anyone, nil
	}
	token, refusal := bearer(headers)
	if refusal != nil {
		return nil, refusal
	}
	id, refusal := v.identify(ctx, token)
	if refusal != nil {
		return nil, refusal
	}
	if !id.Roles.May(level) {
		return nil, noPermission
	}
	return id, nil
}

// bearer takes the token out of the header. The scheme may be left out, and two headers that differ are refused: of two
// tokens nobody can say which one a proxy in front has looked at.
func bearer(headers []string) (string, *Refusal) {
	if len(headers) == 0 {
		return "", tokenRequired
	}
	for _, other := range headers[1:] {
		if other != headers[0] {
			return "", badHeader
		}
	}
	const blank = " \t"
	text := strings.Trim(headers[0], blank)
	if at := strings.IndexAny(text, blank); at >= 0 {
		if !strings.EqualFold(text[:at], "bearer") {
			return "", badHeader
		}
		text = strings.Trim(text[at:], blank)
	} else if strings.EqualFold(text, "bearer") {
		return "", tokenRequired
	}
	if text == "" {
		return "", tokenRequired
	}
	return text, nil
}

// maxSubject bounds sub, which is stored with every message that its bearer pushes. Cutting it could make one bearer look
// like another, so a longer one is refused.
const maxSubject = 1024

// identify verifies a token, or remembers it.
func (v *Verifier) identify(ctx context.Context, token string) (*Identity, *Refusal) {
	now := v.now()
	memory, set := v.fixed, (*keySet)(nil)
	if v.published != nil {
		set = v.published.current()
		memory = set.memory
	}
	hash := sha256.Sum256([]byte(token))
	if id := memory.find(&hash, now); id != nil {
		return id, nil
	}
	var c claims
	_, err := v.parser.ParseWithClaims(token, &c, func(t *jwt.Token) (any, error) {
		key, used, err := v.key(ctx, t, set)
		if used != nil {
			memory = used.memory
		}
		return key, err
	})
	if err != nil {
		return nil, refusalOf(err)
	}
	if refusal := v.settings.check(c, now); refusal != nil {
		return nil, refusal
	}
	id := v.settings.identity(c)
	if len(id.Subject) > maxSubject {
		return nil, badHeader
	}
	memory.keep(&hash, id)
	return id, nil
}

// key finds the key of a token whose signature has not been looked at. Published keys may be fetched for it: then it
// returns the set that the key is from.
func (v *Verifier) key(ctx context.Context, t *jwt.Token, set *keySet) (any, *keySet, error) {
	if _, critical := t.Header["crit"]; critical {
		return nil, nil, badHeader // it names extensions that must be understood, and none is
	}
	from, accepted := v.keys[t.Method.Alg()]
	switch {
	case !accepted:
		return nil, nil, unsupportedAlgorithm
	case from.missing != nil:
		return nil, nil, from.missing
	case from.kind == fromSecret:
		return v.secret, nil, nil
	case from.kind == fromPublicKey:
		return v.publicKey, nil, nil
	}
	key, err := set.find(t)
	for tries := 0; tries < 2 && errors.Is(err, unknownKey); tries++ {
		set = v.published.refetch(ctx, set)
		key, err = set.find(t)
	}
	return key, set, err
}

// refusalOf translates what the parser says.
func refusalOf(err error) *Refusal {
	var refusal *Refusal
	switch {
	case errors.As(err, &refusal):
		return refusal
	case errors.Is(err, jwt.ErrTokenSignatureInvalid):
		return badSignature
	case errors.Is(err, jwt.ErrTokenUnverifiable):
		return unsupportedAlgorithm
	}
	return badHeader
}
