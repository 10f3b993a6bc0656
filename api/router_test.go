package api

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

func TestPathsFindTheirRouteAndNames(t *testing.T) {
	t.Parallel()
	const (
		pinned = "/api/v1/pop/queue/:queue/partition/:partition"
		queue  = "/api/v1/pop/queue/:queue"
		lease  = "/api/v1/lease/:leaseId/extend"
		detail = "/api/v1/resources/queues/:queue"
	)
	router := setup(t).server.router
	for _, c := range []struct {
		method, path, pattern string
		names                 []string
	}{
		{"GET", "/api/v1/pop/queue/bills", queue, []string{"bills"}},
		{"GET", "/api/v1/pop/queue/bills/partition/acme", pinned, []string{"bills", "acme"}},
		{"GET", "/api/v1/pop/queue/a/b/partition/x/y", pinned, []string{"a/b", "x/y"}},
		{"GET", "/api/v1/pop/queue/a%2Fb/partition/x%2fy", pinned, []string{"a/b", "x/y"}},
		{"GET", "/api/v1/pop/queue/a/partition/b/partition/c", pinned, []string{"a/partition/b", "c"}},
		{"GET", "/api/v1/pop/queue/a/partition/b%2Fpartition%2Fc", pinned, []string{"a", "b/partition/c"}},
		{"GET", "/api/v1/pop/queue/a%2Fpartition%2Fb", queue, []string{"a/partition/b"}},
		{"GET", "/api/v1/pop/queue/a/partition", queue, []string{"a/partition"}},
		{"GET", "/api/v1/pop/queue/a//b", queue, []string{"a//b"}},
		{"GET", "/api/v1/pop/queue//", queue, []string{"/"}},
		{"GET", "/api/v1/pop/queue/../..", queue, []string{"../.."}},
		{"GET", "/api/v1/pop/queue/./x", queue, []string{"./x"}},
		{"GET", `/api/v1/pop/queue/say"hi"%2F\back`, queue, []string{`say"hi"/\back`}},
		{"GET", "/api/v1/pop/queue/é€😀", queue, []string{"é€😀"}},
		{"GET", "/api/v1/pop/queue/%C3%A9", queue, []string{"é"}},
		{"GET", "/api/v1/pop/queue/a+b", queue, []string{"a+b"}},
		{"GET", "/api/v1/pop/queue/a%2Bb%20c", queue, []string{"a+b c"}},
		{"GET", "/api/v1/pop/queue/a%252Fb", queue, []string{"a%2Fb"}},
		{"GET", "/api/v1/pop/queue/a%zz%", queue, []string{"a%zz%"}},
		{"GET", "/api/v1/pop/queue/a#b", queue, []string{"a#b"}},
		{"GET", "/api/v1/pop/queue/a;b,c:d@e&f=g", queue, []string{"a;b,c:d@e&f=g"}},
		{"GET", "/api/v1/pop/queue/queue/partition/partition", pinned, []string{"queue", "partition"}},
		{"POST", "/api/v1/lease/abc/extend", lease, []string{"abc"}},
		{"POST", "/api/v1/lease/a/extend/extend", lease, []string{"a/extend"}},
		{"GET", "/api/v1/resources/queues/a/b", detail, []string{"a/b"}},
		{"DELETE", "/api/v1/resources/queues/a/b", detail, []string{"a/b"}},
		{"DELETE", "/api/v1/resources/queues/a/depth", detail, []string{"a/depth"}},
		{"GET", "/api/v1/resources/queues/a%2Fdepth", detail, []string{"a/depth"}},
		{"GET", "/api/v1/resources/queues/a/depth", detail + "/depth", []string{"a"}},
		{"GET", "/api/v1/resources/queues", "/api/v1/resources/queues", nil},
		{"GET", "/api/v1/pop", "/api/v1/pop", nil},
		{"POST", "/api/v1/ack/batch", "/api/v1/ack/batch", nil},
	} {
		found, handle, names := router.find(c.method, c.path)
		require.Equal(t, c.pattern, found.pattern, c.path)
		require.NotNil(t, handle, c.path)
		require.Equal(t, c.names, names, c.path)
	}
	for _, path := range []string{
		"/", "/api", "/api/", "/api/v1", "/api/v1/", "/api/v1/push/", "/api/v1//push", "//api/v1/push", "/api/v1/PUSH", "/api/v1/pu%73h",
		"/api/v1/pop/", "/api/v1/pop/queue", "/api/v1/pop/queue/", "/api/v1/pop/queue//partition/x", "/api/v1/lease//extend", "/api/v1/lease/x",
		"/api/v1/resources", "/api/v1/resources/nothing", "/api/v1/timers", "/api/v1/queues/q/clear", "/api/v1/messages/t",
		"/api/v1/stream/poll", "/streams/v1/other", "/metrics/other", "/index.html", "/health/", "*", "",
	} {
		found, handle, _ := router.find("GET", path)
		require.Same(t, unmatched, found, path)
		require.Nil(t, handle)
	}
}

func TestAPinnedPopNeedsBothNames(t *testing.T) {
	t.Parallel()
	router := setup(t).server.router
	found, _, names := router.find("GET", "/api/v1/pop/queue/a/partition/")
	require.Equal(t, unmatched, found, "%v", names)
}

func TestEncodedNamesComeBackWhateverTheyAre(t *testing.T) {
	t.Parallel()
	router := setup(t).server.router
	rapid.Check(t, func(t *rapid.T) {
		queue := rapid.StringN(1, -1, -1).Draw(t, "queue")
		partition := rapid.StringN(1, -1, -1).Draw(t, "partition")
		path := "/api/v1/pop/queue/" + url.PathEscape(queue) + "/partition/" + url.PathEscape(partition)
		found, _, names := router.find("GET", path)
		require.Equal(t, "/api/v1/pop/queue/:queue/partition/:partition", found.pattern)
		require.Equal(t, []string{queue, partition}, names)
	})
}

// rawRequest speaks HTTP by hand: clients of Go's library would encode what these tests are about.
func rawRequest(t *testing.T, address, method, target string) (*http.Response, string) {
	t.Helper()
	conn, err := net.Dial("tcp", address)
	require.NoError(t, err)
	defer conn.Close()
	_, err = fmt.Fprintf(conn, "%s %s HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n", method, target)
	require.NoError(t, err)
	response, err := http.ReadResponse(bufio.NewReader(conn), nil)
	require.NoError(t, err)
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	require.NoError(t, err)
	return response, string(body)
}

func TestRawPathsReachTheBrokerOverTheWire(t *testing.T) {
	t.Parallel()
	f := setup(t)
	server := httptest.NewServer(f.server)
	defer server.Close()
	address := server.Listener.Addr().String()
	for target, want := range map[string]string{
		"/api/v1/pop/queue/a/b/partition/x/y":    "a/b|x/y",
		"/api/v1/pop/queue/a//b":                 "a//b|",
		"/api/v1/pop/queue/../etc?batch=1":       "../etc|",
		`/api/v1/pop/queue/say"hi"%2Fthere\o/`:   `say"hi"/there\o/|`,
		"/api/v1/pop/queue/żółw€":                "żółw€|",
		"/api/v1/pop/queue/a+b%20c?x=+":          "a+b c|",
		"/api/v1/pop/queue/a%3Fb#c":              "a?b#c|",
		"http://elsewhere/api/v1/pop/queue/a%20": "a |",
		"/api/v1/pop/queue/a':<>|^`{}~[]":        "a':<>|^`{}~[]|",
	} {
		f.popped = nil
		response, body := rawRequest(t, address, "GET", target)
		require.Equal(t, http.StatusNoContent, response.StatusCode, "%s: %s", target, body)
		require.Equal(t, want, f.popped[0].Queue+"|"+f.popped[0].Partition, target)
	}
}

func TestNoContentIsBareOverTheWire(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(setup(t).server)
	defer server.Close()
	response, body := rawRequest(t, server.Listener.Addr().String(), "GET", "/api/v1/pop/queue/q")
	require.Equal(t, http.StatusNoContent, response.StatusCode)
	require.Empty(t, body)
	require.NotContains(t, response.Header, "Content-Length")
	require.NotContains(t, response.Header, "Content-Type")
	require.Empty(t, response.TransferEncoding)
}

func TestUnknownPathsAndWrongMethods(t *testing.T) {
	t.Parallel()
	f := setup(t)
	for _, c := range []struct{ method, target string }{
		{"GET", "/"},
		{"GET", "/index.html"},
		{"GET", "/api/v1/nothing"},
		{"POST", "/elsewhere"},
		{"DELETE", "/api/v1/queues/q/clear"},
		{"GET", "/api/v1/resources/partitions"},
		{"POST", "/api/v1/messages/p/t/dlq"},
		{"GET", "/api/v1/status/queues/q/messages"},
		{"POST", "/api/v1/stream/poll"},
		{"GET", "/api/v1/messages/t"},
		{"POST", "/api/v1/timers"},
		{"POST", "/api/v1/kv"},
		{"POST", "/streams/v1/other"},
		{"OPTIONS", "/nothing"},
	} {
		f.requireJSON(f.do(c.method, c.target, ""), http.StatusNotFound, noRoute)
	}
	for _, c := range []struct{ method, target, allow string }{
		{"GET", "/api/v1/push", "POST"},
		{"POST", "/api/v1/pop", "GET"},
		{"HEAD", "/api/v1/pop", "GET"},
		{"POST", "/api/v1/pop/queue/q", "GET"},
		{"DELETE", "/api/v1/pop/queue/q/partition/p", "GET"},
		{"GET", "/api/v1/lease/x/extend", "POST"},
		{"GET", "/api/v1/ack", "POST"},
		{"PUT", "/api/v1/resources/queues/q", "DELETE, GET, HEAD"},
		{"POST", "/api/v1/dlq", "DELETE, GET, HEAD"},
		{"POST", "/health", "GET, HEAD"},
		{"OPTIONS", "/api/v1/push", "POST"},
	} {
		w := f.do(c.method, c.target, "")
		require.Equal(t, http.StatusMethodNotAllowed, w.Code, c.target)
		require.Equal(t, c.allow, w.Header().Get("Allow"), c.target)
	}
	require.Empty(t, f.popped)
	require.Equal(t, http.StatusOK, f.do("HEAD", "/health", "").Code)
	require.Equal(t, http.StatusOK, f.do("HEAD", "/api/v1/resources/queues", "").Code)
}

func TestQueryStringsAreFormsAndPathsAreNot(t *testing.T) {
	t.Parallel()
	for raw, want := range map[string]query{
		"":                  {},
		"&&":                {},
		"a":                 {"a": {""}},
		"a=1&b=2&a=3":       {"a": {"1", "3"}, "b": {"2"}},
		"a=x+y%2Bz%20w":     {"a": {"x y+z w"}},
		"a%3Db=c=d":         {"a=b": {"c=d"}},
		"a=%zz%4":           {"a": {"%zz%4"}},
		"a=1;b=2":           {"a": {"1;b=2"}},
		"a=%ff%C3%A9":       {"a": {"\ufffdé"}},
		"consumer+group=%2": {"consumer group": {"%2"}},
	} {
		require.Equal(t, want, parseQuery(raw), raw)
	}
	rapid.Check(t, func(t *rapid.T) {
		values := url.Values(rapid.MapOf(rapid.String(), rapid.SliceOfN(rapid.String(), 1, 3)).Draw(t, "values"))
		require.Equal(t, map[string][]string(values), map[string][]string(parseQuery(values.Encode())))
	})
	require.Equal(t, "a+b", percentDecode("a+b", false))
	require.Equal(t, strings.Repeat("é", 3), percentDecode(strings.Repeat("%c3%A9", 3), false))
}
