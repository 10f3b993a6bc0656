package cli

import (
	"strings"
	"time"

	"waggle/node"
)

// JWTFlags say who may use a broker. The published names count the first two durations in seconds and the timeout in
// milliseconds; so do bare numbers here.
type JWTFlags struct {
	Enabled   bool   `env:"JWT_ENABLED" help:"Let only requests in that carry a good JWT as bearer token."`
	Algorithm string `env:"JWT_ALGORITHM" default:"HS256" help:"auto (HS, RS and EdDSA), RS256 for RS256, RS384 and RS512, or the one algorithm to accept."`
	Secret    string `env:"JWT_SECRET" secret:"" help:"Secret for the HS algorithms."`
	PublicKey string `env:"JWT_PUBLIC_KEY" secret:"" help:"Public key or certificate for all others, as PEM."`

	JWKSURL             string `name:"jwks-url" env:"JWT_JWKS_URL" help:"Where public keys are published as a JWK set; not used with a public key."`
	JWKSRefreshInterval string `name:"jwks-refresh-interval" env:"JWT_JWKS_REFRESH_INTERVAL" default:"1h" help:"How often they are fetched; a bare number counts seconds."`
	JWKSTimeout         string `name:"jwks-timeout" env:"JWT_JWKS_TIMEOUT_MS" default:"5s" help:"How long a fetch may take; a bare number counts milliseconds."`

	ClockSkew string `env:"JWT_CLOCK_SKEW" default:"30s" help:"How far clocks may be apart; a bare number counts seconds."`
	Issuer    string `env:"JWT_ISSUER" help:"What iss must be."`
	Audience  string `env:"JWT_AUDIENCE" help:"What aud must be or hold."`

	RolesClaim      string `env:"JWT_ROLES_CLAIM" default:"role" help:"Claim that is one role."`
	RolesArrayClaim string `env:"JWT_ROLES_ARRAY_CLAIM" default:"roles" help:"Claim that is an array of roles."`
	RoleAdmin       string `env:"JWT_ROLE_ADMIN" default:"admin" help:"Role that may do everything."`
	RoleReadWrite   string `env:"JWT_ROLE_READ_WRITE" default:"read-write" help:"Role that may push, consume and look."`
	RoleReadOnly    string `env:"JWT_ROLE_READ_ONLY" default:"read-only" help:"Role that may look."`
	RoleWriteOnly   string `env:"JWT_ROLE_WRITE_ONLY" default:"write-only" help:"Role that may push."`

	SkipPaths []string `env:"JWT_SKIP_PATHS" sep:"," default:"/health,/metrics/prometheus,/metrics,/" help:"Paths that need no token; one that ends in a slash stands for all below it."`
}

// apply fills in the configuration and collects durations that are none.
func (f *JWTFlags) apply(config *node.Config, errs *[]error) {
	duration := func(target *time.Duration, flag, text, unit string) {
		if text != "" && strings.Trim(text, "0123456789") == "" {
			text += unit
		}
		d, err := time.ParseDuration(text)
		if err != nil {
			*errs = append(*errs, &node.ConfigError{Flag: flag, Value: text, Cause: "must be a duration such as 30s, or a number"})
			return
		}
		*target = d
	}
	config.JWTEnabled = f.Enabled
	s := &config.JWT
	s.Algorithm, s.Secret, s.PublicKey, s.JWKSURL = f.Algorithm, f.Secret, f.PublicKey, f.JWKSURL
	duration(&s.JWKSRefresh, "jwt-jwks-refresh-interval", f.JWKSRefreshInterval, "s")
	duration(&s.JWKSTimeout, "jwt-jwks-timeout", f.JWKSTimeout, "ms")
	duration(&s.ClockSkew, "jwt-clock-skew", f.ClockSkew, "s")
	s.Issuer, s.Audience = f.Issuer, f.Audience
	s.RolesClaim, s.RolesArrayClaim = f.RolesClaim, f.RolesArrayClaim
	s.RoleAdmin, s.RoleReadWrite, s.RoleReadOnly, s.RoleWriteOnly = f.RoleAdmin, f.RoleReadWrite, f.RoleReadOnly, f.RoleWriteOnly
	s.SkipPaths = nil
	for _, path := range f.SkipPaths {
		if path = strings.TrimSpace(path); path != "" {
			s.SkipPaths = append(s.SkipPaths, path)
		}
	}
}
