package auth

import (
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/base64"
	"encoding/pem"
	"fmt"
	"maps"
	"math/big"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/golang-jwt/jwt/v5"
	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
)

func TestTheAuthorizationHeader(t *testing.T) {
	t.Parallel()
	v := newVerifier(t)
	good := sign(t, "HS256", []byte(secret), object{"role": "admin"})
	for name, row := range map[string]struct {
		headers []string
		text    string
	}{
		"none":                    {nil, "Authentication required"},
		"empty":                   {[]string{""}, "Authentication required"},
		"blank":                   {[]string{" \t"}, "Authentication required"},
		"a scheme alone":          {[]string{"Bearer"}, "Authentication required"},
		"a scheme and a blank":    {[]string{"bearer "}, "Authentication required"},
		"bearer":                  {[]string{"Bearer " + good}, ""},
		"bearer in another case":  {[]string{"bEARER " + good}, ""},
		"more blanks":             {[]string{" Bearer \t " + good + " "}, ""},
		"no scheme":               {[]string{good}, ""},
		"twice the same":          {[]string{"Bearer " + good, "Bearer " + good}, ""},
		"two that differ":         {[]string{"Bearer " + good, good}, "Bad token header"},
		"another scheme":          {[]string{"Basic " + good}, "Bad token header"},
		"two tokens":              {[]string{"Bearer " + good + " " + good}, "Bad token header"},
		"no token":                {[]string{"Bearer hello"}, "Bad token header"},
		"two parts":               {[]string{"Bearer a.b"}, "Bad token header"},
		"four parts":              {[]string{"Bearer " + good + ".x"}, "Bad token header"},
		"a header that is not":    {[]string{"Bearer " + encode(`nonsense`) + ".e30.e30"}, "Bad token header"},
		"a header of wrong type":  {[]string{"Bearer " + encode(`[]`) + ".e30.e30"}, "Bad token header"},
		"a key id of wrong type":  {[]string{"Bearer " + encode(`{"alg":7}`) + ".e30.e30"}, "Unsupported token algorithm"},
		"no algorithm":            {[]string{"Bearer " + encode(`{}`) + ".e30.e30"}, "Unsupported token algorithm"},
		"an unknown algorithm":    {[]string{"Bearer " + encode(`{"alg":"XX"}`) + ".e30.e30"}, "Unsupported token algorithm"},
		"padding":                 {[]string{"Bearer " + good + "="}, "Bad token header"},
		"claims that are none":    {[]string{"Bearer " + encode(`{"alg":"HS256"}`) + "." + encode(`[`) + ".e30"}, "Bad token header"},
		"a critical extension":    {[]string{sign(t, "HS256", []byte(secret), object{"role": "admin"}, "crit", []string{"b64"})}, "Bad token header"},
		"a very long sub":         {[]string{sign(t, "HS256", []byte(secret), object{"role": "admin", "sub": strings.Repeat("s", 1025)})}, "Bad token header"},
		"a signature of another":  {[]string{sign(t, "HS256", []byte("another"), object{"role": "admin"})}, "Invalid token signature"},
		"no signature":            {[]string{good[:strings.LastIndexByte(good, '.')+1]}, "Invalid token signature"},
		"claims that are swapped": {[]string{swapClaims(good, `{"role":"admin","sub":"x"}`)}, "Invalid token signature"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			status := 401
			if row.text == "" {
				status = 200
			}
			requireAnswer(t, v, status, row.text, row.headers...)
		})
	}
}

func encode(text string) string { return base64.RawURLEncoding.EncodeToString([]byte(text)) }

func swapClaims(token, claims string) string {
	parts := strings.Split(token, ".")
	parts[1] = encode(claims)
	return strings.Join(parts, ".")
}

func TestEachModeAcceptsItsAlgorithmsAndNoOther(t *testing.T) {
	t.Parallel()
	modes := map[string][]string{
		"auto": {"HS256", "HS384", "HS512", "RS256", "RS384", "RS512"}, "RS256": {"RS256", "RS384", "RS512"},
	}
	for _, algorithm := range known {
		if algorithm != "RS256" {
			modes[algorithm] = []string{algorithm}
		}
	}
	signable := slices.DeleteFunc(slices.Clone(known), func(a string) bool { return a == "ES384" || a == "ES512" })
	for mode, accepted := range modes {
		if mode == "ES384" || mode == "ES512" {
			continue // the tests' curve is that of ES256
		}
		pemOf := mode
		if mode == "auto" {
			pemOf = "RS256"
		}
		v := newVerifier(t, func(s *Settings) { s.Algorithm, s.PublicKey = mode, publicPEMFor(t, pemOf) })
		require.Empty(t, v.Warnings(), mode)
		for _, algorithm := range signable {
			token := sign(t, algorithm, keyFor(algorithm), object{"role": "read-only"})
			if slices.Contains(accepted, algorithm) {
				requireAnswer(t, v, 200, "", token)
			} else {
				requireAnswer(t, v, 401, "Unsupported token algorithm", token)
			}
		}
		none := sign(t, "none", jwt.UnsafeAllowNoneSignatureType, object{"role": "admin"})
		requireAnswer(t, v, 401, "Unsupported token algorithm", none)
	}
}

func TestAutoTakesEdwardsKeysToo(t *testing.T) {
	t.Parallel()
	v := newVerifier(t, func(s *Settings) { s.Algorithm, s.PublicKey = "auto", publicPEMFor(t, "EdDSA") })
	requireAnswer(t, v, 200, "", sign(t, "EdDSA", signers().ed, object{"role": "admin"}))
	requireAnswer(t, v, 200, "", sign(t, "HS384", []byte(secret), object{"role": "admin"}))
	requireAnswer(t, v, 401, "Unsupported token algorithm", sign(t, "RS256", signers().rsa, object{"role": "admin"}))
}

// Whoever knows the public key must not be able to use it as a secret.
func TestAPublicKeyIsNoSecret(t *testing.T) {
	t.Parallel()
	text := publicPEMFor(t, "RS256")
	der, _ := pem.Decode([]byte(text))
	for _, key := range [][]byte{[]byte(text), []byte(strings.TrimSpace(text)), der.Bytes, signers().rsa.N.Bytes(), {}} {
		forged := sign(t, "HS256", key, object{"role": "admin"})
		for _, mode := range []string{"auto", "RS256"} {
			with := newVerifier(t, func(s *Settings) { s.Algorithm, s.PublicKey = mode, text })
			without := newVerifier(t, func(s *Settings) { s.Algorithm, s.PublicKey, s.Secret = mode, text, "" })
			status, _ := admit(t, with, forged)
			require.Equal(t, 401, status)
			requireAnswer(t, without, 401, "Unsupported token algorithm", forged)
		}
	}
}

func TestMissingAndBrokenKeys(t *testing.T) {
	t.Parallel()
	token := func(algorithm string) string { return sign(t, algorithm, keyFor(algorithm), object{"role": "admin"}) }
	weak := `-----BEGIN RSA PUBLIC KEY-----
` + base64.StdEncoding.EncodeToString(x509.MarshalPKCS1PublicKey(&rsa.PublicKey{N: new(big.Int).Lsh(big.NewInt(1), 511), E: 65537})) + `
-----END RSA PUBLIC KEY-----`
	for name, row := range map[string]struct {
		adjust   func(*Settings)
		token    string
		status   int
		text     string
		warnings int
	}{
		"no secret":     {func(s *Settings) { s.Secret = "" }, token("HS256"), 500, "JWT secret is not configured", 1},
		"no public key": {func(s *Settings) { s.Algorithm = "RS256" }, token("RS256"), 500, "JWT public key is not configured", 1},
		"no PEM":        {func(s *Settings) { s.Algorithm, s.PublicKey = "RS256", "nonsense" }, token("RS256"), 500, "JWT public key cannot be used", 1},
		"a broken PEM": {func(s *Settings) {
			s.Algorithm, s.PublicKey = "auto", "-----BEGIN PUBLIC KEY-----\nAAAA\n-----END PUBLIC KEY-----"
		}, token("RS256"), 500, "JWT public key cannot be used", 1},
		"a private key": {func(s *Settings) {
			s.Algorithm, s.PublicKey = "RS256", "-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----"
		}, token("RS256"), 500, "JWT public key cannot be used", 1},
		"a short key":         {func(s *Settings) { s.Algorithm, s.PublicKey = "RS256", weak }, token("RS256"), 500, "JWT public key cannot be used", 1},
		"a key of other kind": {func(s *Settings) { s.Algorithm, s.PublicKey = "EdDSA", publicPEMFor(t, "RS256") }, token("EdDSA"), 500, "JWT public key cannot be used", 1},
		"a broken PEM beside a secret": {
			func(s *Settings) { s.Algorithm, s.PublicKey = "auto", "nonsense" }, token("HS256"), 200, "", 1,
		},
		"auto and no key at all": {func(s *Settings) { s.Algorithm, s.Secret = "auto", "" }, token("HS256"), 500, "JWT secret is not configured", 2},
		"auto and a public key only": {
			func(s *Settings) { s.Algorithm, s.Secret, s.PublicKey = "auto", "", publicPEMFor(t, "RS256") },
			token("HS256"), 401, "Unsupported token algorithm", 0,
		},
		"auto and a secret only": {func(s *Settings) { s.Algorithm = "auto" }, token("RS256"), 401, "Unsupported token algorithm", 0},
		"a wrong skip path":      {func(s *Settings) { s.SkipPaths = []string{"health"} }, token("HS256"), 200, "", 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			v := newVerifier(t, row.adjust)
			require.Len(t, v.Warnings(), row.warnings, v.Warnings())
			requireAnswer(t, v, row.status, row.text, row.token)
			requireAnswer(t, v, 401, "Authentication required")
		})
	}
}

func TestFormsOfAPublicKey(t *testing.T) {
	t.Parallel()
	text := publicPEMFor(t, "RS256")
	certificate := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "issuer"}}
	der, err := x509.CreateCertificate(rand.Reader, certificate, certificate, signers().rsa.Public(), signers().rsa)
	require.NoError(t, err)
	for _, form := range []string{
		text, strings.ReplaceAll(strings.TrimSpace(text), "\n", `\n`), "\n " + text,
		string(pem.EncodeToMemory(&pem.Block{Type: "RSA PUBLIC KEY", Bytes: x509.MarshalPKCS1PublicKey(&signers().rsa.PublicKey)})),
		string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})),
	} {
		v := newVerifier(t, func(s *Settings) { s.Algorithm, s.PublicKey = "RS256", form })
		require.Empty(t, v.Warnings(), form)
		requireAnswer(t, v, 200, "", sign(t, "RS256", signers().rsa, object{"role": "admin"}, "kid", "any"))
		requireAnswer(t, v, 401, "Invalid token signature", sign(t, "RS256", signers().other, object{"role": "admin"}))
	}
}

func TestClaims(t *testing.T) {
	t.Parallel()
	at := func(d time.Duration) int64 { return noon.Add(d).Unix() }
	const s = time.Second
	for name, row := range map[string]struct {
		content object
		text    string
	}{
		"none at all":              {object{}, ""},
		"null ones":                {object{"exp": nil, "nbf": nil, "iat": nil}, ""},
		"expires later":            {object{"exp": at(time.Hour)}, ""},
		"expires at the skew":      {object{"exp": at(-30 * s)}, ""},
		"expired":                  {object{"exp": at(-31 * s)}, "Token has expired"},
		"expires in a fraction":    {object{"exp": float64(at(-31*s)) + .9}, "Token has expired"},
		"an expiry that is a text": {object{"exp": fmt.Sprint(at(time.Hour))}, "Token has expired"},
		"an expiry that is a list": {object{"exp": []int{}}, "Token has expired"},
		"an endless expiry":        {object{"exp": 1e300}, ""},
		"begins at the skew":       {object{"nbf": at(30 * s)}, ""},
		"begins later":             {object{"nbf": at(31 * s)}, "Token not yet valid"},
		"a begin that is a text":   {object{"nbf": "0"}, "Token not yet valid"},
		"issued at the skew":       {object{"iat": at(30 * s)}, ""},
		"issued later":             {object{"iat": at(31 * s)}, "Token issued in the future"},
		"an issue that is a bool":  {object{"iat": true}, "Token issued in the future"},
		"names in another case":    {object{"EXP": 1, "Nbf": at(time.Hour)}, ""},
		"the first fault is named": {object{"exp": 1, "nbf": at(time.Hour), "iat": at(time.Hour)}, "Token has expired"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			content := maps.Clone(row.content)
			content["role"] = "admin"
			status := 401
			if row.text == "" {
				status = 200
			}
			requireAnswer(t, newVerifier(t), status, row.text, sign(t, "HS256", []byte(secret), content))
		})
	}
	narrow := newVerifier(t, func(s *Settings) { s.ClockSkew = 0 })
	requireAnswer(t, narrow, 200, "", sign(t, "HS256", []byte(secret), object{"role": "admin", "exp": at(0), "nbf": at(0), "iat": at(0)}))
	requireAnswer(t, narrow, 401, "Token has expired", sign(t, "HS256", []byte(secret), object{"role": "admin", "exp": at(-s)}))
}

func TestIssuerAndAudience(t *testing.T) {
	t.Parallel()
	v := newVerifier(t, func(s *Settings) { s.Issuer, s.Audience = "https://issuer", "waggle" })
	for _, row := range []struct {
		issuer, audience any
		text             string
	}{
		{"https://issuer", "waggle", ""},
		{"https://issuer", []string{"waggle"}, ""},
		{"https://issuer", []any{"other", 7, nil, "waggle"}, ""},
		{"https://issuer", "wagg", "Invalid token audience"},
		{"https://issuer", []string{"wagg", "waggle "}, "Invalid token audience"},
		{"https://issuer", []string{}, "Invalid token audience"},
		{"https://issuer", object{"waggle": 1}, "Invalid token audience"},
		{"https://issuer", nil, "Invalid token audience"},
		{"https://other", "waggle", "Invalid token issuer"},
		{[]string{"https://issuer"}, "waggle", "Invalid token issuer"},
		{nil, "waggle", "Invalid token issuer"},
	} {
		status := 401
		if row.text == "" {
			status = 200
		}
		token := sign(t, "HS256", []byte(secret), object{"role": "admin", "iss": row.issuer, "aud": row.audience})
		requireAnswer(t, v, status, row.text, token)
	}
	requireAnswer(t, newVerifier(t), 200, "", sign(t, "HS256", []byte(secret), object{"role": "admin", "iss": 7, "aud": 7}))
}

func TestRolesOfTokens(t *testing.T) {
	t.Parallel()
	renamed := func(s *Settings) {
		s.RolesClaim, s.RolesArrayClaim, s.RoleAdmin, s.RoleReadOnly = "waggle_role", "groups", "ops", "viewer"
	}
	for _, row := range []struct {
		content object
		adjust  func(*Settings)
		roles   Roles
	}{
		{object{}, nil, 0},
		{object{"role": "admin"}, nil, RoleAdmin},
		{object{"role": "read-write"}, nil, RoleReadWrite},
		{object{"role": "read-only"}, nil, RoleReadOnly},
		{object{"role": "write-only"}, nil, RoleWriteOnly},
		{object{"role": "Admin"}, nil, 0},
		{object{"role": ""}, nil, 0},
		{object{"role": []string{"admin"}}, nil, 0},
		{object{"roles": "admin"}, nil, 0},
		{object{"roles": []any{"read-only", 7, nil, "write-only", "else"}}, nil, RoleReadOnly | RoleWriteOnly},
		{object{"role": "read-only", "roles": []string{"write-only"}}, nil, RoleReadOnly | RoleWriteOnly},
		{object{"realm": object{"roles": []string{"admin"}}}, nil, 0},
		{object{"role": "admin", "roles": []string{"admin"}}, renamed, 0},
		{object{"waggle_role": "viewer", "groups": []string{"ops", "read-write"}}, renamed, RoleReadOnly | RoleAdmin | RoleReadWrite},
	} {
		v := newVerifier(t)
		if row.adjust != nil {
			v = newVerifier(t, row.adjust)
		}
		id, refusal := v.identify(t.Context(), sign(t, "HS256", []byte(secret), row.content))
		require.Nil(t, refusal)
		require.Equal(t, row.roles, id.Roles, row.content)
	}
}

func TestEveryRoleAtEveryLevel(t *testing.T) {
	t.Parallel()
	v := newVerifier(t)
	calls := map[Level][2]string{
		Public: {"GET", "/health/live"}, ReadOnly: {"GET", "/status"}, WriteOnly: {"POST", "/api/v1/push"},
		ReadWrite: {"GET", "/api/v1/pop"}, Admin: {"DELETE", "/api/v1/dlq"},
	}
	may := map[string]string{
		"": "10000", "nobody": "10000", "read-only": "11000", "write-only": "10100", "read-write": "11110", "admin": "11111",
	}
	for role, allowed := range may {
		token := sign(t, "HS256", []byte(secret), object{"role": role, "sub": "s"})
		for level, call := range calls {
			id, refusal := v.Check(t.Context(), call[0], call[1], []string{token})
			if allowed[level] == '0' {
				require.Equal(t, &Refusal{403, "Insufficient permissions", "no_permission"}, refusal, "%s at %s", role, level)
				continue
			}
			require.Nil(t, refusal, "%s at %s", role, level)
			if level == Public {
				require.Empty(t, id.Subject, "no token is looked at")
			} else {
				require.Equal(t, "s", id.Subject)
			}
		}
	}
}

func TestSubject(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		sub    any
		wanted string
	}{{"user-1", "user-1"}, {"ü\u0000\"", "ü\u0000\""}, {"", ""}, {nil, ""}, {7, ""}, {strings.Repeat("s", 1024), strings.Repeat("s", 1024)}} {
		v := newVerifier(t)
		id, refusal := v.identify(t.Context(), sign(t, "HS256", []byte(secret), object{"sub": row.sub}))
		require.Nil(t, refusal)
		require.Equal(t, row.wanted, id.Subject)
	}
}

func TestSkippedPaths(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		entries, path string
		skipped       bool
	}{
		{"/health,/metrics/prometheus,/metrics,/", "/", true},
		{"/health,/metrics/prometheus,/metrics,/", "/status", false},
		{"/", "/api/v1/pop", false},
		{"/api/v1/status", "/api/v1/status", true},
		{"/api/v1/status", "/api/v1/status/queues", false},
		{"/api/v1/status", "/api/v1/status/", false},
		{"/api/v1/status/", "/api/v1/status/queues", true},
		{"/api/v1/status/", "/api/v1/status/", true},
		{"/api/v1/status/", "/api/v1/status", false},
		{"/api/v1/system/", "/api/v1/system/maintenance", true},
		{"", "/api/v1/pop", false},
	} {
		v := newVerifier(t, func(s *Settings) { s.SkipPaths = strings.Split(row.entries, ",") })
		id, refusal := v.Check(t.Context(), "GET", row.path, []string{"nonsense"})
		if row.skipped || LevelOf("GET", row.path) == Public {
			require.Nil(t, refusal, row)
			require.Equal(t, anyone, id)
		} else {
			require.Equal(t, badHeader, refusal, row)
		}
	}
}

func TestSettingsThatCannotBeUsed(t *testing.T) {
	t.Parallel()
	for setting, change := range map[string]func(*Settings){
		"algorithm":             func(s *Settings) { s.Algorithm = "HS257" },
		"jwks-url":              func(s *Settings) { s.JWKSURL = "ftp://x" },
		"jwks-refresh-interval": func(s *Settings) { s.JWKSRefresh = 0 },
		"jwks-timeout":          func(s *Settings) { s.JWKSTimeout = -1 },
		"clock-skew":            func(s *Settings) { s.ClockSkew = -1 },
	} {
		settings := DefaultSettings()
		change(&settings)
		var refused []string
		settings.Validate(func(setting, _, _ string) { refused = append(refused, setting) })
		require.Equal(t, []string{setting}, refused)
	}
	for _, algorithm := range []string{"none", "None", "", "hs256", "AUTO"} {
		require.Nil(t, algorithms(algorithm), algorithm)
	}
}

func TestRememberedTokensExpire(t *testing.T) {
	t.Parallel()
	v := newVerifier(t)
	clock := noon
	v.now = func() time.Time { return clock }
	token := sign(t, "HS256", []byte(secret), object{"role": "admin", "exp": noon.Add(time.Minute).Unix()})
	for range 2 {
		requireAnswer(t, v, 200, "", token)
	}
	require.Len(t, v.fixed.tokens, 1)
	clock = noon.Add(90 * time.Second)
	requireAnswer(t, v, 200, "", token)
	clock = clock.Add(time.Second)
	requireAnswer(t, v, 401, "Token has expired", token)
}

func TestOnlyGoodTokensAreRemembered(t *testing.T) {
	t.Parallel()
	v := newVerifier(t)
	for _, token := range []string{
		sign(t, "HS256", []byte("another"), object{"role": "admin"}),
		sign(t, "HS256", []byte(secret), object{"role": "admin", "exp": 1}), "a.b.c",
	} {
		status, _ := admit(t, v, token)
		require.Equal(t, 401, status)
	}
	require.Empty(t, v.fixed.tokens)
	for i := range maxRemembered + 10 {
		requireAnswer(t, v, 200, "", sign(t, "HS256", []byte(secret), object{"role": "admin", "jti": i}))
	}
	require.Len(t, v.fixed.tokens, maxRemembered)
}

func TestEveryReasonIsListed(t *testing.T) {
	t.Parallel()
	require.Len(t, slices.Compact(slices.Sorted(slices.Values(Reasons()))), len(Reasons()))
	for _, refusal := range []*Refusal{noPublicKey, badPublicKey} {
		require.Contains(t, Reasons(), refusal.Reason)
	}
}

// BenchmarkCheck compares a token that is known with one that must be verified.
func BenchmarkCheck(b *testing.B) {
	for _, algorithm := range []string{"HS256", "RS256", "EdDSA"} {
		content := object{
			"role": "read-write", "sub": "user-1", "iss": "https://issuer", "aud": []string{"waggle"},
			"exp": time.Now().Add(time.Hour).Unix(), "iat": time.Now().Unix(), "jti": "0123456789abcdef",
		}
		headers := []string{"Bearer " + sign(b, algorithm, keyFor(algorithm), content)}
		for _, known := range []bool{true, false} {
			b.Run(fmt.Sprintf("%s/known=%t", algorithm, known), func(b *testing.B) {
				settings := DefaultSettings()
				settings.Algorithm, settings.Secret, settings.PublicKey = algorithm, secret, publicPEMFor(b, algorithm)
				v := New(settings, zap.NewNop())
				b.ReportAllocs()
				for b.Loop() {
					if !known {
						clear(v.fixed.tokens)
					}
					if _, refusal := v.Check(b.Context(), "POST", "/api/v1/push", headers); refusal != nil {
						b.Fatal(refusal)
					}
				}
			})
		}
	}
}
