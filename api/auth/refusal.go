package auth

import "net/http"

// Refusal is why a request does not pass. Text is for the client, word for word as clients know it; Reason is a short
// name for metrics, of a fixed set.
type Refusal struct {
	Status int
	Text   string
	Reason string
}

// Error makes a refusal an error, so that it can come out of the token parser.
func (r *Refusal) Error() string { return r.Text }

var (
	tokenRequired        = &Refusal{http.StatusUnauthorized, "Authentication required", "no_token"}
	badHeader            = &Refusal{http.StatusUnauthorized, "Bad token header", "bad_header"}
	unsupportedAlgorithm = &Refusal{http.StatusUnauthorized, "Unsupported token algorithm", "unsupported_algorithm"}
	badSignature         = &Refusal{http.StatusUnauthorized, "Invalid token signature", "bad_signature"}
	expired              = &Refusal{http.StatusUnauthorized, "Token has expired", "expired"}
	notYetValid          = &Refusal{http.StatusUnauthorized, "Token not yet valid", "not_yet_valid"}
	issuedInFuture       = &Refusal{http.StatusUnauthorized, "Token issued in the future", "issued_in_future"}
	wrongIssuer          = &Refusal{http.StatusUnauthorized, "Invalid token issuer", "wrong_issuer"}
	wrongAudience        = &Refusal{http.StatusUnauthorized, "Invalid token audience", "wrong_audience"}
	unknownKey           = &Refusal{http.StatusUnauthorized, "Unknown key ID", "unknown_key"}
	noPermission         = &Refusal{http.StatusForbidden, "Insufficient permissions", "no_permission"}
	noSecret             = &Refusal{http.StatusInternalServerError, "JWT secret is not configured", "no_key"}
	noPublicKey          = &Refusal{http.StatusInternalServerError, "JWT public key is not configured", "no_key"}
	badPublicKey         = &Refusal{http.StatusInternalServerError, "JWT public key cannot be used", "no_key"}
)

// Reasons lists every Reason that a refusal can have.
func Reasons() []string {
	return []string{
		tokenRequired.Reason, badHeader.Reason, unsupportedAlgorithm.Reason, badSignature.Reason, expired.Reason,
		notYetValid.Reason, issuedInFuture.Reason, wrongIssuer.Reason, wrongAudience.Reason, unknownKey.Reason,
		noPermission.Reason, noSecret.Reason,
	}
}
