package node_test

import (
	"encoding/json"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/golang-jwt/jwt/v5"
	"github.com/stretchr/testify/require"

	"waggle/pg/pgtest"
)

const tokenSecret = "a secret in a file that is long enough"

func bearer(t *testing.T, role, sub string) string {
	t.Helper()
	text, err := jwt.NewWithClaims(jwt.SigningMethodHS256, jwt.MapClaims{
		"role": role, "sub": sub, "exp": time.Now().Add(time.Hour).Unix(),
	}).SignedString([]byte(tokenSecret))
	require.NoError(t, err)
	return "Bearer " + text
}

// The published names of the settings start a broker that lets only bearers of tokens in, and tells who has pushed.
func TestTheSubOfATokenArrivesWithItsMessages(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "secret")
	require.NoError(t, os.WriteFile(file, []byte(tokenSecret+"\n"), 0o600))
	c := startCluster(t, pgtest.New(t).URL, 1, "JWT_ENABLED=true", "JWT_SECRET_FILE="+file, "JWT_CLOCK_SKEW=5", "JWT_JWKS_TIMEOUT_MS=100")
	require.NotContains(t, c[0].log.String(), "authentication is off")
	url := c[0].url
	require.Equal(t, http.StatusOK, call(t, http.MethodGet, url+"/health", "").status)
	require.Equal(t, http.StatusUnauthorized, call(t, http.MethodGet, url+"/api/v1/pop/queue/q", "").status)

	const push = `{"items":[{"queue":"q","payload":1,"producerSub":"forged"}]}`
	for _, sub := range []string{"user-1", ""} {
		got := call(t, http.MethodPost, url+"/api/v1/push", push, "Authorization", bearer(t, "write-only", sub))
		require.Contains(t, got.body, "queued")
	}
	got := call(t, http.MethodGet, url+"/api/v1/pop/queue/q?batch=2&subscriptionMode=all", "", "Authorization", bearer(t, "read-write", "reader"))
	require.Equal(t, http.StatusOK, got.status, got.body)
	var answer struct {
		Messages []struct{ ProducerSub *string }
	}
	require.NoError(t, json.Unmarshal([]byte(got.body), &answer))
	require.Len(t, answer.Messages, 2)
	require.Equal(t, "user-1", *answer.Messages[0].ProducerSub)
	require.Nil(t, answer.Messages[1].ProducerSub)
}

func TestABrokerSaysOnceThatAuthenticationIsOff(t *testing.T) {
	t.Parallel()
	database := pgtest.New(t).URL
	_, port, _ := strings.Cut(freeAddress(t), ":")
	for listen, times := range map[string]int{"127.0.0.1:0": 0, "0.0.0.0:" + port: 1} {
		m := newMember(t, "open", database, "WAGGLE_LISTEN="+listen)
		m.launch(t)
		m.log.await(t, `"listening"`)
		require.Equal(t, times, strings.Count(m.log.String(), "authentication is off"), listen)
	}
}

func TestBadTokenSettingsAreReportedWithAllOthers(t *testing.T) {
	t.Parallel()
	requireRefusal(t, exitUsage, 1,
		[]string{"--jwt-algorithm (WAGGLE_JWT_ALGORITHM)", `"HS257"`, "--jwt-clock-skew", "--jwt-jwks-url", "--lanes"},
		[]string{"JWT_ENABLED=1", "JWT_ALGORITHM=HS257", "JWT_CLOCK_SKEW=soon", "JWT_JWKS_URL=nowhere", "WAGGLE_LANES=99"},
		"--check", "--database-url", "postgres://u@127.0.0.1:1/x")
}
