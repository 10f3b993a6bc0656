package node_test

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"waggle/client"
	"waggle/pg/pgtest"
)

// awkwardNames are legal, and something on the way from a client to a table would like to change each of them.
var awkwardNames = []string{
	"a.b.c", ".", "..", "a/../b", "a//b", "/a/", "a b", `"quoted"`, `back\slash\`, "größe/naïve", "日本語", "🐝", "100%", "%2F", "a%20b",
	"a+b", "a?b=c&d", "a#b", "partition", "queue/x/partition/y", "semi;colon", "'; drop table waggle.queue; --", "$1", "{}", "e\u0301 is not é",
}

// Awkward names mean the same in bodies and in paths, encoded, and raw as far as HTTP allows, on every broker.
func TestAwkwardNames(t *testing.T) {
	t.Parallel()
	c := startCluster(t, pgtest.New(t).URL, 2)
	at := func(n int) *member { return c[n%len(c)] }
	for n, name := range awkwardNames {
		t.Run(name, func(t *testing.T) {
			cl := newClient(t, at(n).url)
			results, err := cl.Push(t.Context(), []client.Item{
				{Queue: name, Partition: name, TransactionID: name, Payload: json.RawMessage(`1`)},
				{Queue: name, Partition: "other", Payload: json.RawMessage(`2`)},
			})
			require.NoError(t, err)
			require.Equal(t, client.Queued, results[0].Status)

			encoded := "/api/v1/pop/queue/" + url.PathEscape(name) + "/partition/" + url.PathEscape(name)
			requirePopped(t, call(t, http.MethodGet, at(n+1).url+encoded+"?consumerGroup="+url.QueryEscape(name)+"&subscriptionMode=all", ""), name)
			if rawPath(name) {
				raw := "/api/v1/pop/queue/" + name + "/partition/" + name + "?consumerGroup=raw&subscriptionMode=all"
				requirePopped(t, rawCall(t, at(n+1), http.MethodGet, raw), name)
			}

			path := "/api/v1/resources/queues/" + url.PathEscape(name)
			got := call(t, http.MethodGet, at(n+1).url+path, "")
			require.Equal(t, http.StatusOK, got.status, got.body)
			var described struct{ Name string }
			require.NoError(t, json.Unmarshal([]byte(got.body), &described))
			require.Equal(t, name, described.Name)

			var deleted struct {
				Deleted, Existed bool
				Queue            string
			}
			got = call(t, http.MethodDelete, at(n+1).url+path, "")
			if rawPath(name) {
				_, err := cl.Configure(t.Context(), client.Configuration{Queue: name})
				require.NoError(t, err)
				got = rawCall(t, at(n), http.MethodDelete, "/api/v1/resources/queues/"+name)
			}
			require.NoError(t, json.Unmarshal([]byte(got.body), &deleted))
			require.True(t, deleted.Deleted && deleted.Existed, got.body)
			require.Equal(t, name, deleted.Queue)
			require.Equal(t, http.StatusNotFound, call(t, http.MethodGet, at(n).url+path, "").status)
		})
	}
	queues, err := newClient(t, c[0].url).Queues(t.Context())
	require.NoError(t, err)
	require.Empty(t, queues, "every queue that was made could be deleted by its name")
}

// rawPath: what a request line cannot hold, or what means something else there, has to be encoded. A name with a fixed
// word of the route in it means a longer route, as a path cannot say where its names begin.
func rawPath(name string) bool {
	return !strings.ContainsAny(name, " ?#%") && !strings.Contains(name, "/partition/")
}

func requirePopped(t *testing.T, got answer, name string) {
	t.Helper()
	require.Equal(t, http.StatusOK, got.status, got.body)
	var popped client.PopAnswer
	require.NoError(t, json.Unmarshal([]byte(got.body), &popped))
	require.Equal(t, name, popped.Queue)
	require.Len(t, popped.Messages, 1)
	require.Equal(t, name, popped.Messages[0].Partition)
	require.Equal(t, name, popped.Messages[0].TransactionID)
	require.Equal(t, "1", string(popped.Messages[0].Data))
}

// rawCall puts the path on the wire as it is, as some clients do.
func rawCall(t *testing.T, m *member, method, path string) answer {
	t.Helper()
	conn, err := net.Dial("tcp", strings.TrimPrefix(m.url, "http://"))
	require.NoError(t, err)
	defer conn.Close()
	_, err = fmt.Fprintf(conn, "%s %s HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n", method, path)
	require.NoError(t, err)
	response, err := http.ReadResponse(bufio.NewReader(conn), nil)
	require.NoError(t, err)
	defer response.Body.Close()
	content, err := io.ReadAll(response.Body)
	require.NoError(t, err)
	return answer{response.StatusCode, string(content), response.Close}
}

// Of eight pushes at once with one transaction id, over three brokers that do not speak to each other, one is stored.
func TestEqualTransactionsAtOnce(t *testing.T) {
	t.Parallel()
	c := startCluster(t, pgtest.New(t).URL, 3, "WAGGLE_MESH=off")
	var clients []*client.Client
	for _, m := range c {
		clients = append(clients, newClient(t, m.url))
	}
	const rounds, at = 20, 8
	for round := range rounds {
		var pushing sync.WaitGroup
		results := make([]client.PushResult, at)
		for i := range at {
			pushing.Go(func() {
				got, err := clients[i%len(clients)].Push(t.Context(), []client.Item{{
					Queue: "once", Partition: fmt.Sprint("p", round%3), TransactionID: fmt.Sprint("t-", round),
				}})
				if err == nil {
					results[i] = got[0]
				}
			})
		}
		pushing.Wait()
		queued := 0
		for _, r := range results {
			require.Contains(t, []client.PushStatus{client.Queued, client.Duplicate}, r.Status, "%+v", results)
			require.Equal(t, results[0].MessageID, r.MessageID)
			if r.Status == client.Queued {
				queued++
			}
		}
		require.Equal(t, 1, queued)
	}
	got, err := clients[0].Pop(t.Context(), client.PopRequest{Queue: "once", Partitions: -1})
	require.NoError(t, err)
	require.Len(t, got.Messages, rounds)
}
