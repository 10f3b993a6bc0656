package api

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"waggle/broker"
)

func TestConfigureEchoesTheStoredState(t *testing.T) {
	t.Parallel()
	f := setup(t)
	f.answer = broker.ConfigureAnswer{
		QueueID: uuid.MustParse("8d0b5a2e-1111-4222-8333-944444444444"), Namespace: "n", Task: `t"`, OptionsVersion: 4,
		Options: storedOptions(), Ignored: []string{"foo", "bar"},
	}
	w := f.do("POST", "/api/v1/configure", `{"queue":"bills","namespace":null,"task":null,"options":{"leaseTime":300}}`)
	f.requireJSON(w, http.StatusOK, `{"configured":true,"queueId":"8d0b5a2e-1111-4222-8333-944444444444","partitionId":null,"queue":"bills",`+
		`"namespace":"n","task":"t\"","storage":"segments","options":`+storedOptionsText+
		`,"optionsVersion":4,"ignored":["foo","bar"]}`)
	f.answer.Ignored = nil
	require.Contains(t, f.do("POST", "/api/v1/configure", `{"queue":""}`).Body.String(), `"ignored":[]}`)
}

func TestConfigureRequestsReachTheBrokerWithTheirTypes(t *testing.T) {
	t.Parallel()
	f := setup(t)
	text := func(s string) *string { return &s }
	for body, want := range map[string]broker.ConfigureRequest{
		`{"queue":""}`: {Options: map[string]any{}},
		`{"queue":"q","options":null,"mode":null,"ifVersion":null}`: {Queue: "q", Options: map[string]any{}},
		`{"queue":"q","options":{"a":1,"b":1.5,"c":true,"d":"x","e":null,"f":-3,"g":1e3,"h":[1],"i":12345678901234567890}}`: {Queue: "q", Options: map[string]any{
			"a": int64(1), "b": 1.5, "c": true, "d": "x", "e": nil, "f": int64(-3), "g": 1000.0, "h": []any{1.0}, "i": 12345678901234567890.0,
		}},
		`{"queue":"q","leaseTime":5,"retryLimit":null,"options":{"leaseTime":6}}`: {Queue: "q", Options: map[string]any{"leaseTime": int64(6), "retryLimit": nil}},
		`{"queue":"q","mode":"merge","ifVersion":3}`:                              {Queue: "q", Options: map[string]any{}, IfVersion: 3},
		`{"queue":"q","mode":"replace","options":{"unknown":{"deep":1}}}`:         {Queue: "q", Options: map[string]any{"unknown": map[string]any{"deep": 1.0}}, Replace: true},
		`{"queue":"é/\"","namespace":"n","task":""}`:                              {Queue: `é/"`, Namespace: text("n"), Task: text(""), Options: map[string]any{}},
		`{"queue":"q","namespace":"n","options":{"namespace":"m","task":null}}`:   {Queue: "q", Namespace: text("m"), Task: text(""), Options: map[string]any{}},
	} {
		w := f.do("POST", "/api/v1/configure", body)
		require.Equal(t, http.StatusOK, w.Code, "%s: %s", body, w.Body)
		want.Tenant = broker.DefaultTenant
		require.Equal(t, want, f.asked, body)
	}
}

func TestBadConfiguresAreRefused(t *testing.T) {
	t.Parallel()
	f := setup(t)
	for body, text := range map[string]string{
		``:                                   "bad body: expected an object at byte 0",
		`{"queue":"q"`:                       "bad body: expected ',' or '}' at byte 12",
		`{}`:                                 "queue is required and must be a string",
		`{"queue":null}`:                     "queue is required and must be a string",
		`{"queue":5}`:                        "queue is required and must be a string",
		`{"queue":"q","mode":"append"}`:      "mode must be merge or replace",
		`{"queue":"q","mode":1}`:             "mode must be merge or replace",
		`{"queue":"q","options":[]}`:         "options must be an object",
		`{"queue":"q","namespace":1}`:        "namespace must be a string",
		`{"queue":"q","options":{"task":1}}`: "task must be a string",
		`{"queue":"q","ifVersion":0}`:        "ifVersion must be a positive integer",
		`{"queue":"q","ifVersion":"1"}`:      "ifVersion must be a positive integer",
		`{"queue":"a\u0001"}`:                "queue holds a control character",
		`{"queue":"` + strings.Repeat("n", 1025) + `"}`: "queue is longer than 1024 bytes",
	} {
		w := f.do("POST", "/api/v1/configure", body)
		var answer struct{ Error string }
		require.NoError(t, json.Unmarshal(w.Body.Bytes(), &answer), body)
		require.Equal(t, text, answer.Error, body)
		require.Equal(t, http.StatusBadRequest, w.Code, body)
	}
	require.Zero(t, f.asked)
}

func TestConfigureFailures(t *testing.T) {
	t.Parallel()
	f := setup(t)
	const body = `{"queue":"q","ifVersion":2}`
	f.err = fmt.Errorf("configure: %w", &broker.InvalidOptionError{Invalid: []string{"leaseTime"}, Reason: "leaseTime cannot be x"})
	f.requireJSON(f.do("POST", "/api/v1/configure", body), http.StatusBadRequest, `{"error":"leaseTime cannot be x","invalid":["leaseTime"]}`)
	f.err = fmt.Errorf("configure: %w", broker.ErrVersionConflict)
	w := f.do("POST", "/api/v1/configure", body)
	require.Equal(t, http.StatusConflict, w.Code)
	require.Contains(t, w.Body.String(), `"code":"version_conflict"`)
	f.err = fmt.Errorf("configure: %w", &broker.OptionNotKnownError{Options: []string{"ttl"}, Brokers: []string{"a (0.1.0)", "b (0.1.0)"}})
	f.requireJSON(f.do("POST", "/api/v1/configure", body), http.StatusConflict, `{"error":"ttl is not known to every live broker: upgrade or stop a (0.1.0), b (0.1.0), then configure again",`+
		`"code":"option_not_known","options":["ttl"],"brokers":["a (0.1.0)","b (0.1.0)"]}`)
	f.err = errors.New("timeout")
	f.requireJSON(f.do("POST", "/api/v1/configure", body), http.StatusInternalServerError, `{"error":"configure failed: timeout"}`)
	f.err = broker.Unavailable(errors.New("refused"))
	f.requireJSON(f.do("POST", "/api/v1/configure", body), http.StatusInternalServerError, `{"error":"pool"}`)
}
