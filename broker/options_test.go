package broker

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestMergeOptions(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		stored           string
		created, replace bool
		sent             map[string]any
		want             string
		ignored          []string
		invalid          []string
	}{
		"the first configure sets the lease time": {
			stored: `{}`, created: true, want: `{"leaseTime":300}`,
		},
		"a queue that a push made keeps its own": {
			stored: `{}`, sent: map[string]any{"retryLimit": 5}, want: `{"retryLimit":5}`,
		},
		"absent keeps, null resets, a value sets": {
			stored: `{"ttl":9,"priority":4,"retryLimit":1}`, sent: map[string]any{"priority": nil, "retryLimit": json.Number("7")},
			want: `{"ttl":9,"retryLimit":7}`,
		},
		"null sets the lease time of a configure": {
			stored: `{"leaseTime":5}`, sent: map[string]any{"leaseTime": nil}, want: `{"leaseTime":300}`,
		},
		"replace resets what this build knows and keeps the rest": {
			stored: `{"ttl":9,"someday":true}`, replace: true, sent: map[string]any{"priority": 1},
			want: `{"leaseTime":300,"priority":1,"someday":true}`,
		},
		"unknown options are listed": {
			stored: `{}`, sent: map[string]any{"b": 1, "a": 2}, want: `{}`, ignored: []string{"a", "b"},
		},
		"minPopWaitTime is clamped": {
			stored: `{}`, sent: map[string]any{"minPopWaitTime": 90000.0}, want: `{"minPopWaitTime":60000}`,
		},
		"bad ones are refused together": {
			stored: `{}`, sent: map[string]any{
				"retentionSinkHold": "no spaces", "retentionSinkHoldMaxSeconds": 59, "leaseTime": "60", "deadLetterQueue": 1,
				"ttl": 1.5, "dedupWindowSeconds": -1, "maxSize": 1 << 40,
			},
			invalid: []string{
				"deadLetterQueue", "dedupWindowSeconds", "leaseTime", "maxSize", "retentionSinkHold",
				"retentionSinkHoldMaxSeconds", "ttl",
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			document, ignored, err := mergeOptions([]byte(c.stored), c.created, c.replace, c.sent)
			if c.invalid != nil {
				var refused *InvalidOptionError
				require.ErrorAs(t, err, &refused)
				require.Equal(t, c.invalid, refused.Invalid)
				return
			}
			require.NoError(t, err)
			require.JSONEq(t, c.want, string(document))
			require.Equal(t, c.ignored, ignored)
			_, err = parseOptions(document)
			require.NoError(t, err)
		})
	}
}

func TestEveryOptionIsEchoedAndHasARule(t *testing.T) {
	t.Parallel()
	require.NotContains(t, defaultOptions.echo(), "deadLetterRetentionSeconds", "options that the contract does not have are echoed where they are set")
	set := defaultOptions
	set.DeadLetterRetentionSeconds = 1
	echo := set.echo()
	for key := range echo {
		require.Contains(t, optionRules, key)
	}
	require.Len(t, echo, len(optionRules))
	require.Equal(t, json.Number("3600"), echo["dedupWindowSeconds"])
	require.Equal(t, true, echo["deadLetterQueue"])
}

func TestStartRules(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		group, mode, from, server string
		pinned                    bool
		want                      string
	}{
		"queue mode takes everything":          {group: QueueMode, mode: "new", from: "now", want: "all"},
		"the server's default":                 {group: "g", server: "new", want: "new"},
		"the server's other default":           {group: "g", server: "all", want: "all"},
		"new":                                  {group: "g", mode: "new", server: "all", want: "new"},
		"new-only":                             {group: "g", mode: "new-only", server: "all", want: "new"},
		"any other word means all":             {group: "g", mode: "erliest", want: "all"},
		"now wins over the mode":               {group: "g", mode: "all", from: "now", want: "new"},
		"a time wins over the mode":            {group: "g", mode: "all", from: "2031-04-05T06:07:08.5+02:00", want: "2031-04-05T04:07:08.5Z"},
		"a time without a zone is UTC":         {group: "g", from: "2031-04-05T06:07:08", want: "2031-04-05T06:07:08Z"},
		"a date":                               {group: "g", from: "2031-04-05", want: "2031-04-05T00:00:00Z"},
		"nonsense means new":                   {group: "g", mode: "all", from: "yesterday", want: "new"},
		"nonsense means all on a pinned pop":   {group: "g", from: "yesterday", pinned: true, want: "all"},
		"queue mode ignores nonsense, as well": {group: QueueMode, from: "yesterday", want: "all"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := &Broker{config: Config{SubscriptionMode: c.server}}
			start := b.start(PopRequest{Group: c.group, SubscriptionMode: c.mode, SubscriptionFrom: c.from}, c.pinned)
			got := [...]string{"all", "new", start.At.UTC().Format("2006-01-02T15:04:05.999Z07:00")}[start.Mode]
			require.Equal(t, c.want, got)
		})
	}
}
