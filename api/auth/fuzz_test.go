package auth

import (
	"net/http"
	"testing"
)

// FuzzAuthorization sends any header to a broker that accepts secrets and public keys: it must answer 401 or 403 or let
// the bearer of a good token in, never fail.
func FuzzAuthorization(f *testing.F) {
	good := sign(f, "HS256", []byte(secret), object{"role": "read-only", "sub": "s", "exp": noon.Unix()})
	weak := sign(f, "HS256", []byte(secret), object{"role": "write-only"})
	for _, header := range []string{
		"", " ", "Bearer", "bearer ", "Bearer " + good, good, "BEARER\t" + good, "Basic dXNlcjpwYXNz", "Bearer a.b.c", "Bearer ..",
		"Bearer " + good + " x", "Bearer " + weak, good + ".", "Bearer " + encode(`{"alg":"none"}`) + ".e30.",
		"Bearer " + encode(`{"alg":"HS256","kid":null,"crit":[]}`) + ".bnVsbA.", "Bearer " + encode(`null`) + ".bnVsbA.bnVsbA",
		sign(f, "RS256", signers().rsa, object{"roles": []string{"admin"}}), "Bearer \x00\xff.\x80.", "Negotiate", "Bearer Bearer",
		sign(f, "HS256", []byte(secret), object{"exp": "x", "nbf": []int{}, "iat": object{}, "aud": 1, "role": 1, "roles": object{}}),
	} {
		f.Add(header)
	}
	v := newVerifier(f, func(s *Settings) {
		s.Algorithm, s.PublicKey, s.Issuer, s.Audience = "auto", publicPEMFor(f, "RS256"), "", ""
	})
	f.Fuzz(func(t *testing.T, header string) {
		for _, headers := range [][]string{{header}, {header, good}} {
			id, refusal := v.Check(t.Context(), "GET", "/status", headers)
			switch {
			case refusal == nil:
				if !id.Roles.May(ReadOnly) {
					t.Fatal("let in without a role")
				}
			case refusal.Status != http.StatusUnauthorized && refusal.Status != http.StatusForbidden:
				t.Fatal(refusal.Status)
			}
		}
	})
}
