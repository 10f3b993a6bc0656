package auth

import (
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/pem"
	"sync"
	"testing"
	"time"

	"github.com/golang-jwt/jwt/v5"
	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
)

const secret = "a secret for tests, long enough for HS512 to be happy with it: 0123456789"

// noon is when the tests' clock stands.
var noon = time.Date(2031, 4, 5, 12, 0, 0, 0, time.UTC)

// signers hold one key of each kind.
var signers = sync.OnceValue(func() (s struct {
	rsa, other *rsa.PrivateKey
	ec         *ecdsa.PrivateKey
	ed         ed25519.PrivateKey
},
) {
	must := func(err error) {
		if err != nil {
			panic(err)
		}
	}
	var err error
	s.rsa, err = rsa.GenerateKey(rand.Reader, 2048)
	must(err)
	s.other, err = rsa.GenerateKey(rand.Reader, 2048)
	must(err)
	s.ec, err = ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	must(err)
	_, s.ed, err = ed25519.GenerateKey(rand.Reader)
	must(err)
	return s
})

// keyFor is the signing key of an algorithm.
func keyFor(algorithm string) any {
	switch family(algorithm) {
	case familyHS:
		return []byte(secret)
	case familyES:
		return signers().ec
	case familyEd:
		return signers().ed
	}
	return signers().rsa
}

func publicPEM(t testing.TB, key any) string {
	t.Helper()
	der, err := x509.MarshalPKIXPublicKey(key)
	require.NoError(t, err)
	return string(pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der}))
}

func publicPEMFor(t testing.TB, algorithm string) string {
	t.Helper()
	switch key := keyFor(algorithm).(type) {
	case *rsa.PrivateKey:
		return publicPEM(t, key.Public())
	case *ecdsa.PrivateKey:
		return publicPEM(t, key.Public())
	case ed25519.PrivateKey:
		return publicPEM(t, key.Public())
	}
	return ""
}

type object = map[string]any

// sign makes a token. Header entries are name, value.
func sign(t testing.TB, algorithm string, key any, content object, header ...any) string {
	t.Helper()
	token := jwt.NewWithClaims(jwt.GetSigningMethod(algorithm), jwt.MapClaims(content))
	for i := 0; i < len(header); i += 2 {
		token.Header[header[i].(string)] = header[i+1]
	}
	text, err := token.SignedString(key)
	require.NoError(t, err)
	return text
}

func newVerifier(t testing.TB, adjust ...func(*Settings)) *Verifier {
	t.Helper()
	settings := DefaultSettings()
	settings.Secret = secret
	for _, change := range adjust {
		change(&settings)
	}
	settings.Validate(func(setting, value, cause string) { t.Fatalf("%s %q: %s", setting, value, cause) })
	v := New(settings, zap.NewNop())
	v.now = func() time.Time { return noon }
	return v
}

// admit is the answer to a read with this header: 200 stands for admitted.
func admit(t testing.TB, v *Verifier, headers ...string) (status int, text string) {
	t.Helper()
	id, refusal := v.Check(t.Context(), "GET", "/api/v1/status", headers)
	if refusal != nil {
		require.Nil(t, id)
		return refusal.Status, refusal.Text
	}
	return 200, ""
}

func requireAnswer(t testing.TB, v *Verifier, status int, text string, headers ...string) {
	t.Helper()
	gotStatus, gotText := admit(t, v, headers...)
	require.Equal(t, status, gotStatus, gotText)
	require.Equal(t, text, gotText)
}
