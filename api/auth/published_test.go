package auth

import (
	"context"
	"crypto"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/MicahParks/jwkset"
	"github.com/stretchr/testify/require"
)

// issuer publishes keys.
type issuer struct {
	*httptest.Server
	document atomic.Pointer[string]
	status   atomic.Int32
	fetches  atomic.Int32
	// gate, when set, holds every answer back until it is closed.
	gate atomic.Pointer[chan struct{}]
}

func newIssuer(t *testing.T) *issuer {
	t.Helper()
	i := &issuer{}
	i.status.Store(http.StatusOK)
	i.publish(`{"keys":[]}`)
	i.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		i.fetches.Add(1)
		if gate := i.gate.Load(); gate != nil {
			<-*gate
		}
		w.WriteHeader(int(i.status.Load()))
		_, _ = w.Write([]byte(*i.document.Load()))
	}))
	t.Cleanup(i.Close)
	return i
}

func (i *issuer) publish(document string) { i.document.Store(&document) }

// jwk is a public key as an entry of a key set. Empty texts are left out.
func jwk(t testing.TB, key crypto.Signer, id, algorithm, use string) string {
	t.Helper()
	made, err := jwkset.NewJWKFromKey(key.Public(), jwkset.JWKOptions{Metadata: jwkset.JWKMetadataOptions{
		KID: id, ALG: jwkset.ALG(algorithm), USE: jwkset.USE(use),
	}})
	require.NoError(t, err)
	text, err := json.Marshal(made.Marshal())
	require.NoError(t, err)
	return string(text)
}

func keySetOf(keys ...string) string {
	document := `{"keys":[`
	for i, key := range keys {
		if i > 0 {
			document += ","
		}
		document += key
	}
	return document + "]}"
}

// subscribe makes a verifier that fetches from the issuer, with a clock of its own for the pause between fetches.
func (i *issuer) subscribe(t *testing.T, adjust ...func(*Settings)) (*Verifier, *atomic.Int64) {
	t.Helper()
	v := newVerifier(t, append([]func(*Settings){func(s *Settings) { s.Algorithm, s.JWKSURL = "auto", i.URL }}, adjust...)...)
	var seconds atomic.Int64
	v.published.now = func() time.Time { return noon.Add(time.Duration(seconds.Load()) * time.Second) }
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() { require.NoError(t, v.Run(ctx)) })
	t.Cleanup(func() {
		cancel()
		running.Wait()
	})
	return v, &seconds
}

func admin(t *testing.T, algorithm string, key any, header ...any) string {
	t.Helper()
	return sign(t, algorithm, key, object{"role": "admin"}, header...)
}

func TestPublishedKeysAreFoundByID(t *testing.T) {
	t.Parallel()
	i := newIssuer(t)
	i.publish(keySetOf(
		`{"kty":"RSA","kid":"broken","n":"!","e":"AQAB"}`, `{"kty":"oct","kid":"shared","k":"c2VjcmV0"}`, `7`,
		jwk(t, signers().other, "for-encryption", "", "enc"),
		jwk(t, signers().rsa, "r", "", "sig"), jwk(t, signers().other, "o", "RS256", ""), jwk(t, signers().ed, "e", "EdDSA", ""),
	))
	v, _ := i.subscribe(t)
	requireAnswer(t, v, 200, "", admin(t, "RS256", signers().rsa, "kid", "r"))
	requireAnswer(t, v, 200, "", admin(t, "RS512", signers().rsa, "kid", "r"))
	requireAnswer(t, v, 200, "", admin(t, "RS256", signers().other, "kid", "o"))
	requireAnswer(t, v, 200, "", admin(t, "EdDSA", signers().ed, "kid", "e"))
	requireAnswer(t, v, 200, "", admin(t, "HS256", []byte(secret), "kid", "whatever"))

	requireAnswer(t, v, 401, "Invalid token signature", admin(t, "RS256", signers().other, "kid", "r"))
	requireAnswer(t, v, 401, "Invalid token signature", admin(t, "EdDSA", signers().ed, "kid", "r"))
	requireAnswer(t, v, 401, "Invalid token signature", admin(t, "HS256", []byte("secret"), "kid", "shared"))
	requireAnswer(t, v, 401, "Unsupported token algorithm", admin(t, "RS512", signers().other, "kid", "o"))
	requireAnswer(t, v, 401, "Unsupported token algorithm", admin(t, "RS256", signers().other, "kid", "for-encryption"))
	requireAnswer(t, v, 401, "Bad token header", admin(t, "RS256", signers().rsa, "kid", 7))
	require.EqualValues(t, 1, i.fetches.Load())
	requireAnswer(t, v, 401, "Unknown key ID", admin(t, "RS256", signers().rsa, "kid", "broken"))
}

func TestATokenWithoutKeyIDUsesTheFirstKey(t *testing.T) {
	t.Parallel()
	i := newIssuer(t)
	i.publish(keySetOf(jwk(t, signers().rsa, "r", "", ""), jwk(t, signers().other, "o", "", ""), jwk(t, signers().ed, "e", "", "")))
	v, _ := i.subscribe(t)
	requireAnswer(t, v, 200, "", admin(t, "RS256", signers().rsa))
	requireAnswer(t, v, 401, "Invalid token signature", admin(t, "RS256", signers().other))
	requireAnswer(t, v, 200, "", admin(t, "EdDSA", signers().ed))
	require.EqualValues(t, 1, i.fetches.Load())
}

func TestAnUnknownKeyIDFetchesOnceInFiveSeconds(t *testing.T) {
	t.Parallel()
	i := newIssuer(t)
	i.publish(keySetOf(jwk(t, signers().rsa, "1", "", "")))
	v, seconds := i.subscribe(t)
	requireAnswer(t, v, 200, "", admin(t, "RS256", signers().rsa, "kid", "1"))
	require.EqualValues(t, 1, i.fetches.Load())

	i.publish(keySetOf(jwk(t, signers().other, "2", "", "")))
	requireAnswer(t, v, 200, "", admin(t, "RS256", signers().other, "kid", "2"))
	require.EqualValues(t, 2, i.fetches.Load(), "a rotation is seen at once")
	requireAnswer(t, v, 401, "Unknown key ID", admin(t, "RS256", signers().rsa, "kid", "1"))
	require.EqualValues(t, 2, i.fetches.Load(), "and the next fetch must wait; the old token was forgotten with its key")

	i.publish(keySetOf(jwk(t, signers().rsa, "3", "", "")))
	seconds.Store(4)
	requireAnswer(t, v, 401, "Unknown key ID", admin(t, "RS256", signers().rsa, "kid", "3"))
	require.EqualValues(t, 2, i.fetches.Load())
	seconds.Store(5)
	requireAnswer(t, v, 200, "", admin(t, "RS256", signers().rsa, "kid", "3"))
	require.EqualValues(t, 3, i.fetches.Load())
}

func TestManyRequestsShareOneFetch(t *testing.T) {
	t.Parallel()
	i := newIssuer(t)
	v, _ := i.subscribe(t)
	requireAnswer(t, v, 401, "Unknown key ID", admin(t, "RS256", signers().rsa, "kid", "1"))
	fetched := i.fetches.Load()
	v.published.mu.Lock()
	v.published.asked = time.Time{}
	v.published.mu.Unlock()

	i.publish(keySetOf(jwk(t, signers().rsa, "1", "", "")))
	gate := make(chan struct{})
	i.gate.Store(&gate)
	token := admin(t, "RS256", signers().rsa, "kid", "1")
	var requests sync.WaitGroup
	for range 20 {
		requests.Go(func() {
			_, refusal := v.Check(t.Context(), "GET", "/status", []string{token})
			if refusal != nil {
				t.Error(refusal.Text)
			}
		})
	}
	require.Eventually(t, func() bool { return i.fetches.Load() > fetched }, 30*time.Second, time.Millisecond)
	close(gate)
	requests.Wait()
	require.Equal(t, fetched+1, i.fetches.Load())
}

func TestAnIssuerThatIsDown(t *testing.T) {
	t.Parallel()
	for name, breakIt := range map[string]func(*issuer){
		"an error":             func(i *issuer) { i.status.Store(http.StatusInternalServerError) },
		"nonsense":             func(i *issuer) { i.publish("<html>") },
		"no list":              func(i *issuer) { i.publish(`{}`) },
		"nothing usable":       func(i *issuer) { i.publish(`{"keys":[{"kty":"?"}]}`) },
		"too much":             func(i *issuer) { i.publish(`{"keys":[],"x":"` + string(make([]byte, maxKeySet)) + `"}`) },
		"not there any longer": func(i *issuer) { i.Close() },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			i := newIssuer(t)
			i.publish(keySetOf(jwk(t, signers().rsa, "1", "", "")))
			v, _ := i.subscribe(t)
			requireAnswer(t, v, 200, "", admin(t, "RS256", signers().rsa, "kid", "1"))
			breakIt(i)
			requireAnswer(t, v, 401, "Unknown key ID", admin(t, "RS256", signers().rsa, "kid", "2"))
			requireAnswer(t, v, 200, "", sign(t, "RS256", signers().rsa, object{"role": "admin", "jti": "new"}, "kid", "1"))
			requireAnswer(t, v, 200, "", sign(t, "RS256", signers().rsa, object{"role": "admin", "jti": "new"}))
		})
	}
}

func TestAnIssuerThatComesLate(t *testing.T) {
	t.Parallel()
	i := newIssuer(t)
	i.status.Store(http.StatusServiceUnavailable)
	v, seconds := i.subscribe(t)
	token := admin(t, "RS256", signers().rsa)
	requireAnswer(t, v, 401, "Unknown key ID", token)
	seconds.Store(60)
	i.status.Store(http.StatusOK)
	i.publish(keySetOf(jwk(t, signers().rsa, "1", "", "")))
	requireAnswer(t, v, 200, "", token)
}

func TestKeysAreFetchedOnTime(t *testing.T) {
	t.Parallel()
	i := newIssuer(t)
	i.publish(keySetOf(jwk(t, signers().rsa, "1", "", "")))
	v, _ := i.subscribe(t, func(s *Settings) { s.JWKSRefresh = time.Second })
	token := admin(t, "RS256", signers().rsa, "kid", "1")
	requireAnswer(t, v, 200, "", token)
	i.publish(keySetOf())
	require.Eventually(t, func() bool {
		status, _ := admit(t, v, token)
		return status == 401
	}, 30*time.Second, 10*time.Millisecond, "a withdrawn key ends with its tokens")
}

func TestAnIssuerThatHangs(t *testing.T) {
	t.Parallel()
	i := newIssuer(t)
	gate := make(chan struct{})
	i.gate.Store(&gate)
	v, _ := i.subscribe(t, func(s *Settings) { s.JWKSTimeout = 50 * time.Millisecond })
	requireAnswer(t, v, 401, "Unknown key ID", admin(t, "RS256", signers().rsa, "kid", "1"))
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, refusal := v.Check(ctx, "GET", "/status", []string{admin(t, "RS256", signers().rsa, "kid", "1")})
	require.Equal(t, unknownKey, refusal, "a client that is gone waits for nothing")
	close(gate)
}

func TestAPublicKeyGoesBeforePublishedOnes(t *testing.T) {
	t.Parallel()
	v := newVerifier(t, func(s *Settings) {
		s.Algorithm, s.PublicKey, s.JWKSURL = "RS256", publicPEMFor(t, "RS256"), "http://127.0.0.1:1/"
	})
	require.Nil(t, v.published)
	requireAnswer(t, v, 200, "", admin(t, "RS256", signers().rsa, "kid", "unknown"))
}
