package pg

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
)

// retentionRules is what the options of a queue ask for, in seconds; nil means that the rule is off.
type retentionRules struct {
	// retention gives up every segment older than that.
	retention *float64
	// completed gives up what is older than that and consumed by all groups.
	completed *float64
	// maxWait gives up what is older than that and not consumed.
	maxWait *float64
	// ids is how long the ids of a segment outlive its body.
	ids float64
	// version is the one of the options that these rules were read from.
	version int64
}

const (
	defaultDedupWindow = 3600.0
	shortestIDWindow   = 900.0
	// longestRule is a century: longer ones would leave the range of the server's times.
	longestRule = 3e9
)

// retentionOptions are the options that begin with "retention" and that this build understands. It has no sinks, so
// retentionSinkHold is understood only while it is empty.
var retentionOptions = []string{"retentionEnabled", "retentionSeconds", "retentionSinkHold", "retentionSinkHoldMaxSeconds"}

// readRetention turns options into rules. problem is not empty when an option that begins with "retention" is unknown
// to this build, or when a rule is not a number: such a queue keeps everything, because what was deleted by
// misunderstanding does not come back. Other unknown options do not concern retention.
func readRetention(options map[string]json.RawMessage) (rules retentionRules, problem string) {
	var problems []string
	for key := range options {
		if strings.HasPrefix(key, "retention") && !slices.Contains(retentionOptions, key) {
			problems = append(problems, fmt.Sprintf("option %s is unknown to this build", key))
		}
	}
	number := func(key string, otherwise float64) float64 {
		var value *float64
		if raw, present := options[key]; present {
			if err := json.Unmarshal(raw, &value); err != nil {
				problems = append(problems, fmt.Sprintf("option %s is not a number", key))
			}
		}
		if value == nil {
			return otherwise
		}
		return min(*value, longestRule)
	}
	retention, completed := number("retentionSeconds", 0), number("completedRetentionSeconds", 0)
	maxWait, dedup := number("maxWaitTimeSeconds", 0), number("dedupWindowSeconds", defaultDedupWindow)
	var enabled bool
	if raw, present := options["retentionEnabled"]; present {
		if err := json.Unmarshal(raw, &enabled); err != nil {
			problems = append(problems, "option retentionEnabled is not a boolean")
		}
	}
	var hold string
	if raw, present := options["retentionSinkHold"]; present && (json.Unmarshal(raw, &hold) != nil || hold != "") {
		problems = append(problems, "option retentionSinkHold names a sink, which this build cannot wait for")
	}
	if len(problems) > 0 {
		slices.Sort(problems)
		return retentionRules{}, strings.Join(problems, "; ")
	}
	if enabled {
		rules.retention, rules.completed = positive(retention), positive(completed)
	}
	rules.maxWait = positive(maxWait)
	rules.ids = max(dedup, completed, shortestIDWindow)
	return rules, ""
}

// none says that no rule is on.
func (r retentionRules) none() bool {
	return r.retention == nil && r.completed == nil && r.maxWait == nil
}

func positive(seconds float64) *float64 {
	if seconds <= 0 {
		return nil
	}
	return &seconds
}
