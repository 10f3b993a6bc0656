package api_test

import (
	"encoding/json"
	"net/http"

	"github.com/stretchr/testify/require"
)

func (l *live) list(target string) []map[string]any {
	l.Helper()
	var out []map[string]any
	for _, value := range l.ask(http.StatusOK, "GET", target, "").([]any) {
		out = append(out, value.(map[string]any))
	}
	return out
}

// pop returns the messages of an answer, none for 204, and the lease.
func (l *live) pop(queue, parameters string) (messages []map[string]any, lease string) {
	l.Helper()
	code, text := l.send("GET", "/api/v1/pop/queue/"+queue+"?"+parameters, "")
	if code == http.StatusNoContent {
		return nil, ""
	}
	require.Equal(l, http.StatusOK, code, text)
	var answer struct {
		LeaseID  string
		Messages []map[string]any
	}
	require.NoError(l, json.Unmarshal([]byte(text), &answer))
	return answer.Messages, answer.LeaseID
}

func (l *live) ack(group, lease, status string, messages ...map[string]any) {
	l.Helper()
	for _, m := range messages {
		body, err := json.Marshal(map[string]any{
			"transactionId": m["transactionId"], "partitionId": m["partitionId"], "leaseId": lease, "status": status,
			"consumerGroup": group, "error": "card refused",
		})
		require.NoError(l, err)
		result := l.ask(http.StatusOK, "POST", "/api/v1/ack", string(body)).([]any)[0].(map[string]any)
		require.Equal(l, true, result["success"], "%v", result)
	}
}

func numbersOf(messages []map[string]any) []int {
	var out []int
	for _, m := range messages {
		out = append(out, int(m["data"].(map[string]any)["n"].(float64)))
	}
	return out
}
