package api

import (
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"waggle/broker"
)

func TestConflatedAnswersSayWhatTheyAre(t *testing.T) {
	t.Parallel()
	f := setup(t)
	const target = "/api/v1/pop/queue/q?consumerGroup=g&conflation=true"
	head := `{"success":true,"queue":"q","partition":"","partitionId":"","leaseId":"","consumerGroup":"g","partitionsClaimed":0,"messages":[]`
	f.pops(&broker.PopAnswer{Group: "g", Conflation: true}, nil)
	f.requireJSON(f.do("GET", target, ""), http.StatusOK, head+`,"conflation":true}`)
	f.pops(&broker.PopAnswer{Group: "g", Conflation: true, ConflationConflict: true}, nil)
	f.requireJSON(f.do("GET", target, ""), http.StatusOK, head+`,"conflation":true,"conflationConflict":true}`)
	f.pops(&broker.PopAnswer{Group: "g", Conflation: true, Paused: true}, nil)
	f.requireJSON(f.do("GET", target, ""), http.StatusOK, `{"messages":[],"paused":true,"conflation":true}`)
	f.pops(nil, nil)
	f.requireNoContent(f.do("GET", target, ""))

	answer := oneMessage()
	f.pops(answer, nil)
	plain := f.do("GET", target, "").Body.String()
	require.NotContains(t, plain, "onflation")
	for _, conflation := range []bool{true, false} {
		answer = oneMessage()
		answer.Conflation, answer.ConflationConflict = conflation, true
		want := plain[:len(plain)-1]
		if conflation {
			want += `,"conflation":true`
		}
		f.pops(answer, nil)
		f.requireJSON(f.do("GET", target, ""), http.StatusOK, want+`,"conflationConflict":true}`)
	}
}

func TestAcksOfConflatingGroupsSaySo(t *testing.T) {
	t.Parallel()
	f := setup(t)
	f.ackResult = func(item broker.AckItem) broker.AckResult {
		return broker.AckResult{Success: true, Conflated: item.TransactionID == "a"}
	}
	const end = `,"success":true,"error":null,"leaseReleased":false,"dlq":false,"noop":false`
	f.requireJSON(f.do("POST", "/api/v1/ack/batch", `{"acknowledgments":[{"transactionId":"a"},{"transactionId":"b"}]}`), http.StatusOK,
		`[{"index":0,"transactionId":"a"`+end+`,"conflated":true},{"index":1,"transactionId":"b"`+end+`}]`)
}

func TestTheAutopilotsChoiceIsReported(t *testing.T) {
	t.Parallel()
	f := setup(t)
	const target = "/api/v1/pop/queue/q?consumerGroup=g&autopilot=true"
	f.pops(oneMessage(), nil)
	plain := f.do("GET", target, "").Body.String()
	require.NotContains(t, plain, "autopilot")
	answer := oneMessage()
	answer.Autopilot = &broker.Piloted{Partitions: 12, Batch: 200, FillWait: 30 * time.Millisecond}
	f.pops(answer, nil)
	f.requireJSON(f.do("GET", target, ""), http.StatusOK,
		plain[:len(plain)-1]+`,"autopilot":{"partitions":12,"batch":200,"waitMs":30}}`)
}
