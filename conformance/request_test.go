package conformance

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"io"
	mathrand "math/rand/v2"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

type (
	object = map[string]any
	list   = []any
)

// server is the broker under judgement: some addresses, any of which serves any request.
type server struct {
	urls   []string
	client *http.Client
	header http.Header
}

func newServer(addresses []string) *server {
	for i := range addresses {
		addresses[i] = strings.TrimRight(strings.TrimSpace(addresses[i]), "/")
	}
	transport := &http.Transport{MaxIdleConnsPerHost: 64, DisableCompression: true}
	return &server{urls: addresses, client: &http.Client{
		Transport: &recorder{transport}, Timeout: 60 * time.Second,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}, header: http.Header{}}
}

// with is the same server for a caller who sends one more header.
func (s *server) with(name, value string) *server {
	other := *s
	other.header = s.header.Clone()
	other.header.Set(name, value)
	return &other
}

// answer is what came back.
type answer struct {
	asked  string
	status int
	header http.Header
	length int64
	body   []byte
}

// call sends a request to a random broker. The path goes out as it stands; a body that is no string is sent as JSON, nil
// is no body at all.
func (s *server) call(t testing.TB, method, path string, body any) *answer {
	t.Helper()
	got, err := s.try(t.Context(), method, path, body)
	require.NoError(t, err, "%s %s", method, path)
	return got
}

func (s *server) try(ctx context.Context, method, path string, body any) (*answer, error) {
	return s.send(ctx, s.urls[mathrand.IntN(len(s.urls))], method, path, body)
}

func (s *server) send(ctx context.Context, base, method, path string, body any) (*answer, error) {
	var content []byte
	switch b := body.(type) {
	case nil:
	case string:
		content = []byte(b)
	default:
		var err error
		if content, err = json.Marshal(b); err != nil {
			return nil, err
		}
	}
	request, err := http.NewRequestWithContext(ctx, method, base, bytes.NewReader(content))
	if err != nil {
		return nil, err
	}
	if content == nil {
		request.Body, request.ContentLength = http.NoBody, 0
	}
	request.Header = s.header.Clone()
	raw, query, _ := strings.Cut(path, "?")
	request.URL = &url.URL{Scheme: request.URL.Scheme, Host: request.URL.Host, Opaque: "//" + request.URL.Host + raw, RawQuery: query}
	response, err := s.client.Do(request)
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	got := &answer{asked: method + " " + path, status: response.StatusCode, header: response.Header, length: response.ContentLength}
	got.body, err = io.ReadAll(response.Body)
	return got, err
}

func (s *server) get(t testing.TB, path string) *answer {
	t.Helper()
	return s.call(t, "GET", path, nil)
}

func (s *server) delete(t testing.TB, path string) *answer {
	t.Helper()
	return s.call(t, "DELETE", path, nil)
}

func (s *server) post(t testing.TB, path string, body any) *answer {
	t.Helper()
	return s.call(t, "POST", path, body)
}

// is checks the code and the form of a JSON answer, see conforms.
func (a *answer) is(t testing.TB, status int, form string) *answer {
	t.Helper()
	require.Equal(t, status, a.status, "%s: %s", a.asked, a.body)
	require.Contains(t, a.header.Get("Content-Type"), "application/json", a.asked)
	require.NoError(t, conforms(a.body, form), "%s: %s", a.asked, a.body)
	return a
}

// isEmpty checks a 204 as section 1.2 wants it.
func (a *answer) isEmpty(t testing.TB) {
	t.Helper()
	require.Equal(t, http.StatusNoContent, a.status, "%s: %s", a.asked, a.body)
	require.Empty(t, a.body, a.asked)
	require.NotContains(t, a.header, "Content-Type", a.asked)
	require.NotContains(t, a.header, "Content-Length", a.asked)
}

// refuses checks a refusal of bad input, whose text has to name what is wrong.
func (a *answer) refuses(t testing.TB, status int, names ...string) {
	t.Helper()
	require.Equal(t, status, a.status, "%s: %s", a.asked, a.body)
	require.NoError(t, conforms(a.body, "{error:string}"), "%s: %s", a.asked, a.body)
	for _, name := range names {
		require.Contains(t, strings.ToLower(a.text(t, "error")), strings.ToLower(name), a.asked)
	}
}

// at follows names and positions into the body; what is not there is nil.
func (a *answer) at(t testing.TB, path ...any) any {
	t.Helper()
	var value any
	decoder := json.NewDecoder(bytes.NewReader(a.body))
	decoder.UseNumber()
	require.NoError(t, decoder.Decode(&value), "%s: %s", a.asked, a.body)
	for _, step := range path {
		switch step := step.(type) {
		case string:
			fields, _ := value.(map[string]any)
			value = fields[step]
		case int:
			items, _ := value.([]any)
			require.Less(t, step, len(items), "%s: %v of %s", a.asked, path, a.body)
			value = items[step]
		}
	}
	return value
}

func (a *answer) text(t testing.TB, path ...any) string {
	t.Helper()
	text, ok := a.at(t, path...).(string)
	require.True(t, ok, "%s: %v is no text in %s", a.asked, path, a.body)
	return text
}

func (a *answer) number(t testing.TB, path ...any) int {
	t.Helper()
	number, ok := a.at(t, path...).(json.Number)
	require.True(t, ok, "%s: %v is no number in %s", a.asked, path, a.body)
	n, err := number.Int64()
	require.NoError(t, err)
	return int(n)
}

func (a *answer) items(t testing.TB, path ...any) []any {
	t.Helper()
	items, ok := a.at(t, path...).([]any)
	require.True(t, ok, "%s: %v is no list in %s", a.asked, path, a.body)
	return items
}

// unique makes names that no other test and no earlier run has used.
func unique(prefix string) string {
	var b [8]byte
	_, _ = rand.Read(b[:])
	return prefix + "-" + hex.EncodeToString(b[:])
}

// eventually asks again until the answer is yes.
func eventually(t testing.TB, limit time.Duration, what string, holds func() bool) {
	t.Helper()
	for deadline := time.Now().Add(limit); !holds(); time.Sleep(50 * time.Millisecond) { // between two questions
		require.True(t, time.Now().Before(deadline), "waited in vain until: %s", what)
	}
}
