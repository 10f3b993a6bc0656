package api

import (
	"errors"
	"net/http"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"waggle/admin"
	"waggle/broker"
)

var (
	queueID  = uuid.MustParse("8d0b5a2e-1111-4222-8333-944444444444")
	identity = admin.QueueIdentity{ID: queueID, Name: "bills", Namespace: "bills", CreatedAt: created}
)

func TestQueueListHasTheShapeOfTheContract(t *testing.T) {
	t.Parallel()
	f := setup(t)
	f.requireJSON(f.do("GET", "/api/v1/resources/queues", ""), http.StatusOK, `{"queues":[]}`)
	f.queues = []admin.QueueSummary{
		{QueueIdentity: identity, Partitions: 3, RetainedBytes: 5120, Segments: 4, Messages: 120, Pending: 20, Processing: 10},
		{QueueIdentity: admin.QueueIdentity{ID: queueID, Name: `"`, CreatedAt: created}},
	}
	const head = `"id":"8d0b5a2e-1111-4222-8333-944444444444","name":`
	f.requireJSON(f.do("GET", "/api/v1/resources/queues?stats=cached", ""), http.StatusOK, `{"queues":[{`+head+
		`"bills","namespace":"bills","task":"","createdAt":"2031-04-05T06:07:08.123Z","partitions":3,"retainedBytes":5120,`+
		`"segments":{"segments":4,"messages":120},"messages":{"total":120,"pending":20,"processing":10}},{`+head+
		`"\"","namespace":"","task":"","createdAt":"2031-04-05T06:07:08.123Z","partitions":0,"retainedBytes":0,`+
		`"segments":{"segments":0,"messages":0},"messages":{"total":0,"pending":0,"processing":0}}]}`)
	f.err = errors.New("timeout")
	f.requireJSON(f.do("GET", "/api/v1/resources/queues", ""), http.StatusInternalServerError, `{"error":"list queues failed"}`)
}

func TestQueueDetailHasTheShapeOfTheContract(t *testing.T) {
	t.Parallel()
	f := setup(t)
	f.requireJSON(f.do("GET", "/api/v1/resources/queues/nothing", ""), http.StatusNotFound, `{"error":"Queue not found"}`)
	f.queue = &admin.QueueDetail{
		QueueIdentity: identity, Options: []byte(storedOptionsText), OptionsVersion: 2, Priority: 7, RetainedBytes: 9, Segments: 1,
		Totals: admin.Counts{Total: 5, Pending: 2, Processing: 1, Completed: 2, DeadLetter: 4},
		Partitions: []admin.PartitionDetail{
			{ID: partitionID, Name: "a", CreatedAt: created, Counts: admin.Counts{Total: 5, Pending: 2, Processing: 1, Completed: 2, DeadLetter: 4}, Oldest: created, Newest: created.Add(time.Second)},
			{ID: partitionID, Name: "b", CreatedAt: created},
		},
	}
	f.requireJSON(f.do("GET", "/api/v1/resources/queues/a/b%20c", ""), http.StatusOK,
		`{"id":"8d0b5a2e-1111-4222-8333-944444444444","name":"bills","namespace":"bills","task":"","createdAt":"2031-04-05T06:07:08.123Z",`+
			`"priority":7,"options":`+storedOptionsText+`,"optionsVersion":2,"partitions":[`+
			`{"id":"5c0e6a0e-7a0b-4a4e-9c55-0f6c4a1f2b77","name":"a","createdAt":"2031-04-05T06:07:08.123Z",`+
			`"stats":{"total":5,"pending":2,"processing":1,"completed":2,"failed":null,"deadLetter":4},`+
			`"oldestMessage":"2031-04-05T06:07:08.123Z","newestMessage":"2031-04-05T06:07:09.123Z"},`+
			`{"id":"5c0e6a0e-7a0b-4a4e-9c55-0f6c4a1f2b77","name":"b","createdAt":"2031-04-05T06:07:08.123Z",`+
			`"stats":{"total":0,"pending":0,"processing":0,"completed":0,"failed":null,"deadLetter":0},"oldestMessage":null,"newestMessage":null}],`+
			`"totals":{"total":5,"pending":2,"processing":1,"completed":2,"failed":null,"deadLetter":4},"retainedBytes":9,"segments":{"segments":1,"messages":5}}`)
	require.Equal(t, "a/b c", f.looked)
	f.looked = ""
	f.requireJSON(f.do("GET", "/api/v1/resources/queues/a%00b", ""), http.StatusNotFound, `{"error":"Queue not found"}`)
	require.Empty(t, f.looked, "a name that cannot exist is not asked for")
	f.err = broker.Unavailable(errors.New("refused"))
	f.requireJSON(f.do("GET", "/api/v1/resources/queues/q", ""), http.StatusInternalServerError, `{"error":"pool"}`)
}

func TestQueueDelete(t *testing.T) {
	t.Parallel()
	f := setup(t)
	f.existed = true
	f.requireJSON(f.do("DELETE", "/api/v1/resources/queues/bi/lls", "", "Content-Type", "application/json"), http.StatusOK,
		`{"deleted":true,"queue":"bi/lls","existed":true}`)
	require.Equal(t, "bi/lls", f.deleted)
	f.existed = false
	f.requireJSON(f.do("DELETE", "/api/v1/resources/queues/bills", ""), http.StatusOK,
		`{"deleted":false,"queue":"bills","existed":false,"message":"Queue not found"}`)
	f.requireJSON(f.do("DELETE", "/api/v1/resources/queues/a%01", ""), http.StatusOK,
		`{"deleted":false,"queue":"a\u0001","existed":false,"message":"Queue not found"}`)
	require.Equal(t, "bills", f.deleted)
	f.err = errors.New("timeout")
	f.requireJSON(f.do("DELETE", "/api/v1/resources/queues/bills", ""), http.StatusInternalServerError, `{"error":"delete failed"}`)
}

func TestDeadLettersHaveTheShapeOfTheContract(t *testing.T) {
	t.Parallel()
	f := setup(t)
	f.requireJSON(f.do("GET", "/api/v1/dlq", ""), http.StatusOK, `{"messages":[],"pagination":{"limit":100,"offset":0},"total":0}`)
	require.Equal(t, admin.DeadLetterFilter{Limit: 100}, f.filter)

	f.letters = []admin.DeadLetter{{
		ID: 77, TransactionID: "b-1", PartitionID: partitionID, Queue: "bills", Partition: "acme", Group: "ledger",
		Error: "card refused", RetryCount: 3, Payload: []byte(`{"n": 1}`), FailedAt: created, PushedAt: created.Add(-time.Minute),
	}, {ProducerSub: "me", Payload: []byte("null"), FailedAt: created}}
	w := f.do("GET", "/api/v1/dlq?queue=bi+lls&consumerGroup=ledger&limit=7&offset=3&partition=x&from=y&to=z", "")
	f.requireJSON(w, http.StatusOK, `{"messages":[`+
		`{"id":"77","transactionId":"b-1","partitionId":"5c0e6a0e-7a0b-4a4e-9c55-0f6c4a1f2b77","queue":"bills","partition":"acme","consumerGroup":"ledger",`+
		`"errorMessage":"card refused","retryCount":3,"data":{"n": 1},"producerSub":null,"createdAt":"2031-04-05T06:07:08.123Z","failedAt":"2031-04-05T06:07:08.123Z","pushedAt":"2031-04-05T06:06:08.123Z"},`+
		`{"id":"0","transactionId":"","partitionId":"00000000-0000-0000-0000-000000000000","queue":"","partition":"","consumerGroup":"",`+
		`"errorMessage":"","retryCount":0,"data":null,"producerSub":"me","createdAt":"2031-04-05T06:07:08.123Z","failedAt":"2031-04-05T06:07:08.123Z","pushedAt":null}],`+
		`"pagination":{"limit":7,"offset":3},"total":2}`)
	require.Equal(t, admin.DeadLetterFilter{Queue: "bi lls", Group: "ledger", Limit: 7, Offset: 3}, f.filter)

	for parameters, want := range map[string]admin.DeadLetterFilter{
		"limit=&offset=": {Limit: 100}, "limit=x&offset=-1": {Limit: 100}, "limit=0": {}, "limit=999999": {Limit: 10_000}, "limit=-5": {Limit: 100},
	} {
		f.do("GET", "/api/v1/dlq?"+parameters, "")
		require.Equal(t, want, f.filter, parameters)
	}
	f.err = errors.New("timeout")
	f.requireJSON(f.do("GET", "/api/v1/dlq", ""), http.StatusInternalServerError, `{"error":"list dead letters failed"}`)
}
