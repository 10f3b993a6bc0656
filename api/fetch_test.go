package api

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"waggle/broker"
)

func TestFetchRequestAndAnswer(t *testing.T) {
	t.Parallel()
	f := setup(t)
	f.fetched = []broker.Fetched{
		{High: 9, Start: 2, Records: []broker.FetchedRecord{{Offset: 8, Message: broker.Message{
			TransactionID: "t", Payload: []byte(`{"n":1}`), CreatedAt: time.UnixMilli(1_900_000_000_123),
		}}}},
		{Problem: broker.UnknownTopic},
	}
	w := f.do("POST", "/api/v1/fetch", `{"entries":[{"queue":"q","partition":7,"offset":8,"maxBytes":99999999},{"queue":"r"}],"maxWaitMs":90000,"minBytes":5}`)
	f.requireJSON(w, http.StatusOK, `{"entries":[{"queue":"q","partition":"7","records":[{"offset":8,"transactionId":"t","payload":{"n":1},"ts":1900000000123}],"highWatermark":9,"logStartOffset":2},`+
		`{"queue":"r","partition":"Default","records":[],"highWatermark":0,"logStartOffset":0,"error":"UNKNOWN_TOPIC_OR_PARTITION"}]}`)
	require.Equal(t, broker.FetchRequest{
		Tenant: broker.DefaultTenant, MaxWait: 30 * time.Second, MinBytes: 5, Entries: []broker.FetchEntry{
			{Queue: "q", Partition: "7", Offset: 8, MaxBytes: 8 << 20}, {Queue: "r", Partition: "Default", MaxBytes: 1 << 20},
		},
	}, f.fetches)
	f.fetched = nil
	for _, body := range []string{`{"entries":[]}`, `{}`, `{"entries":null}`} {
		f.requireJSON(f.do("POST", "/api/v1/fetch", body), http.StatusOK, `{"entries":[]}`)
	}
}

func TestChangedRequestAndAnswer(t *testing.T) {
	t.Parallel()
	f := setup(t)
	safe := time.Date(2031, 4, 5, 6, 7, 8, 123456000, time.UTC)
	f.changes = broker.Changes{Safe: safe, Entries: []broker.ChangedAnswer{
		{More: true, Partitions: []broker.ChangedPartition{{Name: "a", Last: 4, Start: 1, WrittenAt: safe}}},
		{Problem: broker.UnknownTopic},
	}}
	w := f.do("POST", "/api/v1/partitions/changed", `{"entries":[{"queue":"q","since":"2031-04-05T06:07:08.123456Z","after":"YQ","limit":5000},`+
		`{"queue":"bad","after":"?"},{"queue":"bad","since":"yesterday"},{"queue":"none","since":"","limit":0}]}`)
	f.requireJSON(w, http.StatusOK, `{"safeTime":"2031-04-05T06:07:08.123456Z","safeTimeDegraded":false,"entries":[`+
		`{"queue":"q","partitions":[{"name":"a","lastOffset":4,"logStart":1,"lastWriteAt":"2031-04-05T06:07:08.123456Z"}],"next":"YQ"},`+
		`{"queue":"bad","error":"BAD_CURSOR"},{"queue":"bad","error":"BAD_CURSOR"},{"queue":"none","error":"UNKNOWN_TOPIC_OR_PARTITION"}]}`)
	after := "a"
	require.Equal(t, []broker.ChangedEntry{
		{Queue: "q", Since: safe, After: &after, Limit: 1000}, {Queue: "none", Limit: 1},
	}, f.changed)
	f.changes.Entries = nil
	f.requireJSON(f.do("POST", "/api/v1/partitions/changed", `{}`), http.StatusOK, `{"safeTime":"2031-04-05T06:07:08.123456Z","safeTimeDegraded":false,"entries":[]}`)
}

// Whatever is wrong with a body is said by the name of the field.
func TestFetchAndChangedRefuseBadInput(t *testing.T) {
	t.Parallel()
	f := setup(t)
	many := func(n int) string { return `{"entries":[` + strings.Repeat(`{"queue":"q"},`, n) + `{"queue":"q"}]}` }
	for _, test := range []struct{ path, body, says string }{
		{"/api/v1/fetch", `{`, "bad body"},
		{"/api/v1/fetch", `[]`, "bad body"},
		{"/api/v1/fetch", `null`, "bad body: expected an object"},
		{"/api/v1/fetch", `{"entries":{}}`, "entries must be an array"},
		{"/api/v1/fetch", `{"entries":[1]}`, "entries[0] must be an object"},
		{"/api/v1/fetch", `{"entries":[{"queue":"q"},{"partition":"p"}]}`, "entries[1].queue is required"},
		{"/api/v1/fetch", `{"entries":[{"queue":"q","offset":-1}]}`, "entries[0].offset"},
		{"/api/v1/fetch", `{"entries":[{"queue":"q","offset":"1"}]}`, "entries[0].offset"},
		{"/api/v1/fetch", `{"entries":[{"queue":"q","partition":{}}]}`, "entries[0].partition"},
		{"/api/v1/fetch", `{"entries":[{"queue":"q\u0001"}]}`, "entries[0].queue holds a control character"},
		{"/api/v1/fetch", `{"entries":[],"maxWaitMs":-1}`, "maxWaitMs"},
		{"/api/v1/fetch", `{"entries":[],"minBytes":1.5}`, "minBytes"},
		{"/api/v1/fetch", many(maxFetchEntries), "at most 1024"},
		{"/api/v1/partitions/changed", `{"entries":[{"queue":7}]}`, "entries[0].queue"},
		{"/api/v1/partitions/changed", `{"entries":[{"queue":"q","since":7}]}`, "entries[0].since"},
		{"/api/v1/partitions/changed", `{"entries":[{"queue":"q","limit":"all"}]}`, "entries[0].limit"},
		{"/api/v1/partitions/changed", many(maxChangedEntries), "at most 64"},
	} {
		w := f.do("POST", test.path, test.body)
		require.Equal(t, http.StatusBadRequest, w.Code, test.body)
		require.Contains(t, w.Body.String(), test.says, test.body)
	}
}
