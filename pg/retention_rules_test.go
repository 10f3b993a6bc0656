package pg

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestReadRetention(t *testing.T) {
	t.Parallel()
	seconds := func(s float64) *float64 { return &s }
	for name, test := range map[string]struct {
		options string
		rules   retentionRules
		problem string
	}{
		"nothing asked for": {
			options: `{}`, rules: retentionRules{ids: 3600},
		},
		"all rules": {
			options: `{"retentionEnabled":true,"retentionSeconds":10,"completedRetentionSeconds":5000,"maxWaitTimeSeconds":30.5}`,
			rules:   retentionRules{retention: seconds(10), completed: seconds(5000), maxWait: seconds(30.5), ids: 5000},
		},
		"retention that is not enabled": {
			options: `{"retentionSeconds":10,"completedRetentionSeconds":20,"maxWaitTimeSeconds":30}`,
			rules:   retentionRules{maxWait: seconds(30), ids: 3600},
		},
		"null is the default": {
			options: `{"retentionEnabled":null,"retentionSeconds":null,"dedupWindowSeconds":null,"retentionSinkHold":null}`,
			rules:   retentionRules{ids: 3600},
		},
		"zero and less are off": {
			options: `{"retentionEnabled":true,"retentionSeconds":0,"completedRetentionSeconds":-1,"dedupWindowSeconds":0}`,
			rules:   retentionRules{ids: 900},
		},
		"more than a century is a century": {
			options: `{"maxWaitTimeSeconds":1e300}`, rules: retentionRules{maxWait: seconds(3e9), ids: 3600},
		},
		"an empty sink hold": {
			options: `{"retentionSinkHold":"","retentionSinkHoldMaxSeconds":604800,"ttl":1,"novelty":[]}`,
			rules:   retentionRules{ids: 3600},
		},
		"a sink hold": {
			options: `{"retentionSinkHold":"lake"}`,
			problem: "option retentionSinkHold names a sink, which this build cannot wait for",
		},
		"unknown and ill-typed options, in order": {
			options: `{"retentionZ":1,"retentionA":1,"retentionSeconds":"10","retentionEnabled":"yes"}`,
			problem: "option retentionA is unknown to this build; option retentionEnabled is not a boolean; " +
				"option retentionSeconds is not a number; option retentionZ is unknown to this build",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var options map[string]json.RawMessage
			require.NoError(t, json.Unmarshal([]byte(test.options), &options))
			rules, problem := readRetention(options)
			require.Equal(t, test.problem, problem)
			require.Equal(t, test.rules, rules)
		})
	}
}
