package api

import (
	"errors"
	"net/http"
	"strings"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"waggle/broker"
)

const transactionPath = "/api/v1/transaction"

func TestTransactionRequestAndAnswer(t *testing.T) {
	t.Parallel()
	f := setup(t)
	trace, message := uuid.New(), uuid.MustParse("019a7c12-0000-7000-8000-00000000000b")
	f.transact = func(t broker.Transaction) ([]broker.OperationResult, error) {
		return []broker.OperationResult{
			{TransactionID: "c-9", MessageID: message},
			{TransactionID: "c-9", MessageID: message, Duplicate: true},
			{TransactionID: "flat", MessageID: message},
			{TransactionID: "b-1", DLQ: true},
			{TransactionID: "b-2"},
		}, nil
	}
	w := f.do("POST", transactionPath, `{"operations":[
		{"type":"push","items":[{"queue":"posted","partition":"p","payload":{"n":1},"transactionId":"c-9","traceId":"`+trace.String()+`"},{"queue":"posted","data":[1],"transactionId":""}]},
		{"type":"push","queue":"other","partition":null},
		{"type":"ack","transactionId":"b-1","partitionId":"x","status":"failed","consumerGroup":"g","leaseId":"l","error":"why"},
		{"type":"ack","transactionId":"b-2","partitionId":"x","consumerGroup":null}],
		"requiredLeases":["l1","l2"],"kv":[],"timers":null}`)
	require.Equal(t, http.StatusOK, w.Code, w.Body)
	body := w.Body.String()
	require.Regexp(t, `^\{"transactionId":"[0-9a-f-]{14}7[0-9a-f-]{21}","success":true,"results":\[`, body)
	_, results, _ := strings.Cut(body, `"results":`)
	require.Equal(t, `[{"index":0,"type":"push","success":true,"transactionId":"c-9","messageId":"`+message.String()+`","queueName":"posted"},`+
		`{"index":1,"type":"push","success":true,"transactionId":"c-9","messageId":"`+message.String()+`","queueName":"posted","duplicate":true},`+
		`{"index":2,"type":"push","success":true,"transactionId":"flat","messageId":"`+message.String()+`","queueName":"other"},`+
		`{"index":3,"type":"ack","success":true,"transactionId":"b-1","error":null,"dlq":true},`+
		`{"index":4,"type":"ack","success":true,"transactionId":"b-2","error":null,"dlq":false}]}`, results)
	require.Equal(t, broker.Transaction{
		Tenant: broker.DefaultTenant, RequiredLeases: []string{"l1", "l2"}, Operations: []broker.Operation{
			{Push: &broker.PushItem{Queue: "posted", Partition: "p", Payload: []byte(`{"n":1}`), TransactionID: "c-9", HasTransactionID: true, TraceID: trace}},
			{Push: &broker.PushItem{Queue: "posted", Partition: "Default", Payload: []byte(`[1]`)}},
			{Push: &broker.PushItem{Queue: "other", Partition: "Default", Payload: []byte(`{}`)}},
			{Group: "g", Ack: &broker.AckItem{TransactionID: "b-1", PartitionID: "x", Status: broker.AckFailed, Lease: "l", Error: "why"}},
			{Group: broker.QueueMode, Ack: &broker.AckItem{TransactionID: "b-2", PartitionID: "x", Status: broker.AckCompleted}},
		},
	}, f.transaction)
}

func TestTransactionRollbackAndFailure(t *testing.T) {
	t.Parallel()
	f := setup(t)
	f.transact = func(broker.Transaction) ([]broker.OperationResult, error) {
		return nil, &broker.Rollback{Reason: broker.ReasonDuplicate, Text: `QDUP "x"`}
	}
	w := f.do("POST", transactionPath, `{"operations":[]}`)
	require.Equal(t, http.StatusOK, w.Code)
	require.Regexp(t, `^\{"transactionId":"[^"]{36}","success":false,"reason":"duplicate","error":"QDUP \\"x\\"","results":\[\]\}$`, w.Body.String())
	f.transact = func(broker.Transaction) ([]broker.OperationResult, error) {
		return nil, broker.Unavailable(errors.New("gone"))
	}
	f.requireJSON(f.do("POST", transactionPath, `{"operations":[]}`), http.StatusInternalServerError, `{"error":"pool"}`)
}

// A bad transaction is refused whole, by the name of what is wrong with it.
func TestBadTransactions(t *testing.T) {
	t.Parallel()
	f := setup(t)
	f.transact = func(broker.Transaction) ([]broker.OperationResult, error) {
		t.Error("a bad transaction was carried out")
		return nil, nil
	}
	for body, says := range map[string]string{
		`{}`:                  "transaction requires an operations array",
		`[]`:                  "transaction requires an operations array",
		`{"operations":null}`: "transaction requires an operations array",
		`{"operations":{}}`:   "transaction requires an operations array",
		`{"operations":[],"kv":[{"op":"get","ns":"a","key":"b"}]}`:                                                          "kv is not supported",
		`{"operations":[],"timers":{}}`:                                                                                     "timers is not supported",
		`{"operations":[1]}`:                                                                                                "operations[0] must be an object",
		`{"operations":[{"type":"nack"}]}`:                                                                                  "only push and ack operations are supported",
		`{"operations":[{}]}`:                                                                                               "operations[0].type is required",
		`{"operations":[{"type":"ack","partitionId":"p"}]}`:                                                                 "operations[0].transactionId is required",
		`{"operations":[{"type":"ack","transactionId":"t"}]}`:                                                               "operations[0].partitionId is required",
		`{"operations":[{"type":"ack","transactionId":"t","partitionId":"p","leaseId":5}]}`:                                 "operations[0].leaseId",
		`{"operations":[{"type":"push"}]}`:                                                                                  "operations[0].queue is required",
		`{"operations":[{"type":"push","items":{}}]}`:                                                                       "operations[0].items",
		`{"operations":[{"type":"push","items":[{"queue":"q"},{"queue":"q\u0001"}]}]}`:                                      "operations[0].items[1].queue",
		`{"operations":[{"type":"push","queue":"q","transactionId":"\u001f"}]}`:                                             "operations[0].transactionId holds a control character",
		`{"operations":[{"type":"push","queue":"q","transactionId":"` + strings.Repeat("x", 65536) + `"}]}`:                 "operations[0].transactionId is longer",
		`{"operations":[{"type":"push","queue":"q","traceId":"x"}]}`:                                                        "operations[0].traceId must be a UUID",
		`{"operations":[],"requiredLeases":["a",1]}`:                                                                        "requiredLeases[1]",
		`{"operations":[` + strings.Repeat(`{"type":"push","queue":"q"},`, maxOperations) + `{"type":"push","queue":"q"}]}`: "more than 10000",
	} {
		w := f.do("POST", transactionPath, body)
		require.Equal(t, http.StatusBadRequest, w.Code, body)
		require.Contains(t, w.Body.String(), `"success":false,"reason":"bad_request"`, body)
		require.Contains(t, w.Body.String(), says, body)
	}
	w := f.do("POST", transactionPath, `{"operations":[}`)
	require.Equal(t, http.StatusBadRequest, w.Code)
	require.Contains(t, w.Body.String(), `{"error":"bad body: `)
}
