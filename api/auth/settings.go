package auth

import (
	"fmt"
	"net/url"
	"slices"
	"strings"
	"time"
)

// Settings say which tokens are good and what their roles are called.
type Settings struct {
	// Algorithm is auto, RS256 for its whole family, or the name of the one algorithm that is accepted.
	Algorithm string
	// Secret verifies HS algorithms.
	Secret string
	// PublicKey is PEM and verifies all others. It goes before JWKSURL.
	PublicKey string
	// JWKSURL publishes keys as a JWK set.
	JWKSURL     string
	JWKSRefresh time.Duration
	JWKSTimeout time.Duration

	ClockSkew time.Duration
	// Issuer and Audience are checked when they are set.
	Issuer   string
	Audience string

	// RolesClaim names a claim that is a string, RolesArrayClaim one that is an array of strings.
	RolesClaim      string
	RolesArrayClaim string
	RoleAdmin       string
	RoleReadWrite   string
	RoleReadOnly    string
	RoleWriteOnly   string

	// SkipPaths need no token. One that is longer than a character and ends in a slash stands for all below it.
	SkipPaths []string
}

// DefaultSettings lack only a key.
func DefaultSettings() Settings {
	return Settings{
		Algorithm: "HS256", JWKSRefresh: time.Hour, JWKSTimeout: 5 * time.Second, ClockSkew: 30 * time.Second,
		RolesClaim: "role", RolesArrayClaim: "roles",
		RoleAdmin: "admin", RoleReadWrite: "read-write", RoleReadOnly: "read-only", RoleWriteOnly: "write-only",
		SkipPaths: []string{"/health", "/metrics/prometheus", "/metrics", "/"},
	}
}

const (
	algorithmAuto = "auto"
	familyHS      = "HS"
	familyRS      = "RS"
	familyPS      = "PS"
	familyES      = "ES"
	familyEd      = "Ed"
)

// known are the algorithms that can be asked for.
var known = []string{
	"HS256", "HS384", "HS512", "RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA",
}

// algorithms are those that a mode accepts; none for a mode that does not exist.
func algorithms(mode string) []string {
	switch {
	case mode == algorithmAuto:
		return []string{"HS256", "HS384", "HS512", "RS256", "RS384", "RS512", "EdDSA"}
	case mode == "RS256":
		return []string{"RS256", "RS384", "RS512"}
	case slices.Contains(known, mode):
		return []string{mode}
	}
	return nil
}

// family is the part of an algorithm's name that decides which kind of key it takes.
func family(algorithm string) string { return algorithm[:2] }

// Validate hands every setting that cannot be used to refuse, under its flag's name without the prefix. A missing or
// broken key is none of these: it shows in Warnings, and in the answers.
func (s *Settings) Validate(refuse func(setting, value, cause string)) {
	if algorithms(s.Algorithm) == nil {
		refuse("algorithm", s.Algorithm, "must be auto or one of "+strings.Join(known, ", "))
	}
	if s.JWKSURL != "" {
		if u, err := url.Parse(s.JWKSURL); err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
			refuse("jwks-url", s.JWKSURL, "must be an http or https URL")
		}
	}
	between := func(setting string, value, low, high time.Duration) {
		if value < low || value > high {
			refuse(setting, value.String(), fmt.Sprintf("must be between %v and %v", low, high))
		}
	}
	between("jwks-refresh-interval", s.JWKSRefresh, time.Second, 30*24*time.Hour)
	between("jwks-timeout", s.JWKSTimeout, 10*time.Millisecond, time.Minute)
	between("clock-skew", s.ClockSkew, 0, 24*time.Hour)
}

// skips says whether a path needs no token at all.
func (s *Settings) skips(path string) bool {
	for _, entry := range s.SkipPaths {
		if path == entry || len(entry) > 1 && entry[len(entry)-1] == '/' && strings.HasPrefix(path, entry) {
			return true
		}
	}
	return false
}
