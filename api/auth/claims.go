package auth

import (
	"encoding/json"
	"math"
	"time"

	"github.com/golang-jwt/jwt/v5"
)

// claims are the claims of a token, each as it was written. Names are compared exactly, which decoding into a struct
// would not do. The methods that the parser asks for have nothing to say: it is told not to judge.
type claims map[string]json.RawMessage

func (claims) GetExpirationTime() (*jwt.NumericDate, error) { return nil, nil }
func (claims) GetIssuedAt() (*jwt.NumericDate, error)       { return nil, nil }
func (claims) GetNotBefore() (*jwt.NumericDate, error)      { return nil, nil }
func (claims) GetIssuer() (string, error)                   { return "", nil }
func (claims) GetSubject() (string, error)                  { return "", nil }
func (claims) GetAudience() (jwt.ClaimStrings, error)       { return nil, nil }

// has says whether a claim is there; null is not.
func (c claims) has(name string) bool {
	raw, found := c[name]
	return found && string(raw) != "null"
}

func (c claims) text(name string) string {
	var text string
	if json.Unmarshal(c[name], &text) != nil {
		return ""
	}
	return text
}

func (c claims) texts(name string) []string {
	var entries []json.RawMessage
	if json.Unmarshal(c[name], &entries) != nil {
		return nil
	}
	var texts []string
	for _, entry := range entries {
		var text *string
		if json.Unmarshal(entry, &text) == nil && text != nil {
			texts = append(texts, *text)
		}
	}
	return texts
}

// seconds is a moment as seconds since 1970. A claim that is no number gives NaN, with which every comparison fails.
func (c claims) seconds(name string) float64 {
	var seconds float64
	if json.Unmarshal(c[name], &seconds) != nil {
		return math.NaN()
	}
	return seconds
}

// check holds the claims of a token whose signature is good against the settings.
func (s *Settings) check(c claims, now time.Time) *Refusal {
	clock, skew := float64(now.UnixMilli())/1000, s.ClockSkew.Seconds()
	switch {
	case c.has("exp") && !(clock <= c.seconds("exp")+skew):
		return expired
	case c.has("nbf") && !(clock >= c.seconds("nbf")-skew):
		return notYetValid
	case c.has("iat") && !(clock >= c.seconds("iat")-skew):
		return issuedInFuture
	case s.Issuer != "" && c.text("iss") != s.Issuer:
		return wrongIssuer
	case s.Audience != "" && !c.addresses(s.Audience):
		return wrongAudience
	}
	return nil
}

func (c claims) addresses(audience string) bool {
	if c.text("aud") == audience {
		return true
	}
	for _, entry := range c.texts("aud") {
		if entry == audience {
			return true
		}
	}
	return false
}

// roles are the roles of both claims taken together. Names that are not configured mean nothing.
func (s *Settings) roles(c claims) Roles {
	roles := s.role(c.text(s.RolesClaim))
	for _, name := range c.texts(s.RolesArrayClaim) {
		roles |= s.role(name)
	}
	return roles
}

func (s *Settings) role(name string) (role Roles) {
	if name == "" {
		return 0
	}
	if name == s.RoleAdmin {
		role |= RoleAdmin
	}
	if name == s.RoleReadWrite {
		role |= RoleReadWrite
	}
	if name == s.RoleReadOnly {
		role |= RoleReadOnly
	}
	if name == s.RoleWriteOnly {
		role |= RoleWriteOnly
	}
	return role
}

// identity is what a good token says. Until is when it stops being good, in seconds since 1970 and with the clock skew in
// it.
func (s *Settings) identity(c claims) *Identity {
	id := &Identity{Subject: c.text("sub"), Roles: s.roles(c), until: math.Inf(1)}
	if c.has("exp") {
		id.until = c.seconds("exp") + s.ClockSkew.Seconds()
	}
	return id
}
