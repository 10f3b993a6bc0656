package api

import (
	"errors"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"waggle/broker"
)

func TestAnAckIsAListOfOne(t *testing.T) {
	t.Parallel()
	f := setup(t)
	f.ackResult = func(broker.AckItem) broker.AckResult { return broker.AckResult{Success: true, LeaseReleased: true} }
	w := f.do("POST", "/api/v1/ack", `{"transactionId":"b-1","partitionId":"5c0e6a0e-7a0b-4a4e-9c55-0f6c4a1f2b77",
		"leaseId":"019a7c11-0000-7000-8000-000000000001","status":"completed","error":null,"consumerGroup":"ledger","more":[{}]}`)
	f.requireJSON(w, http.StatusOK, `[{"index":0,"transactionId":"b-1","success":true,"error":null,"leaseReleased":true,"dlq":false,"noop":false}]`)
	require.Equal(t, "ledger", f.group)
	require.Equal(t, []broker.AckItem{{
		TransactionID: "b-1", PartitionID: "5c0e6a0e-7a0b-4a4e-9c55-0f6c4a1f2b77", Status: broker.AckCompleted, Lease: "019a7c11-0000-7000-8000-000000000001",
	}}, f.acked)
}

func TestAckBatchAnswersInOrder(t *testing.T) {
	t.Parallel()
	f := setup(t)
	f.ackResult = func(item broker.AckItem) broker.AckResult {
		switch item.TransactionID {
		case "a":
			return broker.AckResult{Success: true, DLQ: true, LeaseReleased: true}
		case `b"`:
			return broker.AckResult{Success: true, Noop: true}
		}
		return broker.AckResult{Error: "consumer not found"}
	}
	w := f.do("POST", "/api/v1/ack/batch", `{"acknowledgments":[
		{"transactionId":"a","partitionId":"p","status":"dlq","leaseId":"l","error":"why \u00e9","consumerGroup":"ignored"},
		{"transactionId":"b\"","partitionId":"p"},{"transactionId":null,"status":"odd"}],"consumerGroup":"g"}`)
	f.requireJSON(w, http.StatusOK, `[`+
		`{"index":0,"transactionId":"a","success":true,"error":null,"leaseReleased":true,"dlq":true,"noop":false},`+
		`{"index":1,"transactionId":"b\"","success":true,"error":null,"leaseReleased":false,"dlq":false,"noop":true},`+
		`{"index":2,"transactionId":"","success":false,"error":"consumer not found","leaseReleased":false,"dlq":false,"noop":false}]`)
	require.Equal(t, "g", f.group)
	require.Equal(t, []broker.AckItem{
		{TransactionID: "a", PartitionID: "p", Status: broker.AckDLQ, Lease: "l", Error: "why é"},
		{TransactionID: `b"`, PartitionID: "p"},
		{Status: broker.AckFailed},
	}, f.acked)
	f.acked = nil
	f.requireJSON(f.do("POST", "/api/v1/ack/batch", `{"acknowledgments":[]}`), http.StatusOK, `[]`)
	require.Nil(t, f.acked)
}

func TestAckStatuses(t *testing.T) {
	t.Parallel()
	f := setup(t)
	for status, want := range map[string]broker.AckStatus{
		`null`: broker.AckCompleted, `"completed"`: broker.AckCompleted, `"success"`: broker.AckCompleted, `"acked"`: broker.AckCompleted, `"ok"`: broker.AckCompleted,
		`"retry"`: broker.AckRetry, `"dlq"`: broker.AckDLQ, `"failed"`: broker.AckFailed, `""`: broker.AckFailed, `"Completed"`: broker.AckFailed, `"DLQ"`: broker.AckFailed,
	} {
		f.do("POST", "/api/v1/ack", `{"transactionId":"t","status":`+status+`}`)
		require.Equal(t, want, f.acked[0].Status, status)
		f.do("POST", "/api/v1/ack/batch", `{"acknowledgments":[{"transactionId":"t","status":`+status+`}]}`)
		require.Equal(t, want, f.acked[0].Status, status)
	}
	f.do("POST", "/api/v1/ack", `{"transactionId":"t"}`)
	require.Equal(t, broker.AckCompleted, f.acked[0].Status)
}

func TestTheGroupOfAnAck(t *testing.T) {
	t.Parallel()
	f := setup(t)
	for sent, want := range map[string]string{
		``: broker.QueueMode, `,"consumerGroup":null`: broker.QueueMode, `,"consumerGroup":""`: broker.QueueMode, `,"consumerGroup":"g"`: "g",
		`,"consumerGroup":"a\u0000"`: "a\ufffd",
	} {
		f.do("POST", "/api/v1/ack", `{"transactionId":"t"`+sent+`}`)
		require.Equal(t, want, f.group, sent)
		f.group = "unset"
		f.do("POST", "/api/v1/ack/batch", `{"acknowledgments":[{"transactionId":"t"}]`+sent+`}`)
		require.Equal(t, want, f.group, sent)
	}
}

func TestUnparsableAcksAreRefused(t *testing.T) {
	t.Parallel()
	f := setup(t)
	for _, body := range []string{``, `[]`, `{`, `{"transactionId":1}`, `{"status":true}`, `{"error":{}}`, `{} {}`} {
		w := f.do("POST", "/api/v1/ack", body)
		require.Equal(t, http.StatusBadRequest, w.Code, body)
		require.Contains(t, w.Body.String(), `{"error":"bad body: `)
	}
	for _, body := range []string{``, `{}`, `{"acknowledgments":null}`, `{"acknowledgments":{}}`, `{"acknowledgments":[1]}`, `{"acknowledgments":[{"leaseId":2}]}`, `{"acknowledgments":[],"consumerGroup":5}`} {
		w := f.do("POST", "/api/v1/ack/batch", body)
		require.Equal(t, http.StatusBadRequest, w.Code, body)
		require.Contains(t, w.Body.String(), `{"error":"bad body: `)
	}
	require.Nil(t, f.acked)
}

func TestALeaseIsExtendedWhateverTheBodyLooksLike(t *testing.T) {
	t.Parallel()
	f := setup(t)
	f.extended = broker.ExtendResult{Renewed: 2, ExpiresAt: created}
	for body, want := range map[string]int{
		"": 60, "{}": 60, "null": 60, "[": 60, `{"seconds":`: 60, `{"seconds":null}`: 60, `{"seconds":"5"}`: 60, `{"seconds":1.5}`: 60, "\xff": 60, `{"seconds":5} x`: 60,
		`{"seconds":5}`: 5, `{"seconds":1}`: 1, `{"seconds":0}`: 1, `{"seconds":-7}`: 1, `{"x":{},"seconds":300}`: 300, `{"seconds":99999999999}`: 1<<31 - 1,
	} {
		w := f.do("POST", "/api/v1/lease/a/b%20c/extend", body)
		f.requireJSON(w, http.StatusOK, `{"leaseId":"a/b c","success":true,"renewed":2,"newExpiresAt":"2031-04-05T06:07:08.123456Z",`+
			`"expiresAt":"2031-04-05T06:07:08.123456Z","lease_expires_at":"2031-04-05T06:07:08.123456Z"}`)
		require.Equal(t, want, f.seconds, body)
		require.Equal(t, "a/b c", f.lease)
	}
	f.extended = broker.ExtendResult{}
	f.requireJSON(f.do("POST", "/api/v1/lease/x/extend", ""), http.StatusOK,
		`{"leaseId":"x","success":false,"renewed":0,"newExpiresAt":null,"expiresAt":null,"lease_expires_at":null}`)
	f.err = errors.New("deadlock")
	f.requireJSON(f.do("POST", "/api/v1/lease/x/extend", ""), http.StatusInternalServerError, `{"error":"renew failed: deadlock"}`)
	f.err = broker.Unavailable(errors.New("refused"))
	f.requireJSON(f.do("POST", "/api/v1/lease/x/extend", ""), http.StatusInternalServerError, `{"error":"pool"}`)
}

func TestManyAcksAreReadInOneGo(t *testing.T) {
	t.Parallel()
	f := setup(t)
	one := `{"transactionId":"t","partitionId":"p"},`
	body := `{"acknowledgments":[` + strings.TrimSuffix(strings.Repeat(one, 100_000), ",") + `]}`
	require.Equal(t, http.StatusOK, f.do("POST", "/api/v1/ack/batch", body).Code)
	require.Len(t, f.acked, 100_000)
}
