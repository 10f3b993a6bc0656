package broker

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"regexp"
	"slices"
	"strings"
	"time"
)

// Options are a queue's settings as the data plane uses them. The zero value is never used: see defaultOptions.
type Options struct {
	LeaseTime                   int    `json:"leaseTime"`
	RetryLimit                  int    `json:"retryLimit"`
	RetryDelay                  int    `json:"retryDelay"`
	Priority                    int    `json:"priority"`
	MaxSize                     int    `json:"maxSize"`
	TTL                         int    `json:"ttl"`
	DeadLetterQueue             bool   `json:"deadLetterQueue"`
	DLQAfterMaxRetries          bool   `json:"dlqAfterMaxRetries"`
	DelayedProcessing           int    `json:"delayedProcessing"`
	WindowBuffer                int    `json:"windowBuffer"`
	RetentionEnabled            bool   `json:"retentionEnabled"`
	RetentionSeconds            int    `json:"retentionSeconds"`
	CompletedRetentionSeconds   int    `json:"completedRetentionSeconds"`
	MaxWaitTimeSeconds          int    `json:"maxWaitTimeSeconds"`
	EncryptionEnabled           bool   `json:"encryptionEnabled"`
	MinPopWaitTime              int    `json:"minPopWaitTime"`
	DedupWindowSeconds          int    `json:"dedupWindowSeconds"`
	RetentionSinkHold           string `json:"retentionSinkHold"`
	RetentionSinkHoldMaxSeconds int    `json:"retentionSinkHoldMaxSeconds"`
	// DeadLetterRetentionSeconds is how long dead letters of the queue are kept, 0 for as long as the brokers' setting says.
	DeadLetterRetentionSeconds int `json:"deadLetterRetentionSeconds,omitempty"`
	// EverEncrypted says that the log may hold sealed segments whatever EncryptionEnabled says now. It is no option: it is
	// written when encryption is first switched on, and never taken away.
	EverEncrypted bool `json:"-"`
}

// everEncrypted is where the stored document keeps EverEncrypted.
const everEncrypted = "everEncrypted"

// defaultOptions are those of a queue that nobody configured.
var defaultOptions = Options{
	LeaseTime: 60, RetryLimit: 3, RetryDelay: 1000, TTL: 3600, DeadLetterQueue: true, DLQAfterMaxRetries: true,
	DedupWindowSeconds: 3600, RetentionSinkHoldMaxSeconds: 604800,
}

// configuredLeaseTime is what configure writes when the caller names none; a queue made by a push has 60.
const configuredLeaseTime = 300

const maxMinPopWait = 60000

// parseOptions reads a stored options document. Keys that this build does not know stay in the document.
func parseOptions(document []byte) (Options, error) {
	stored := struct {
		Options
		Ever bool `json:"everEncrypted"`
	}{Options: defaultOptions}
	err := json.Unmarshal(document, &stored)
	stored.EverEncrypted = stored.Ever
	if err != nil {
		return stored.Options, fmt.Errorf("read queue options: %w", err)
	}
	return stored.Options, nil
}

func (o Options) dedupWindow() time.Duration {
	return time.Duration(o.DedupWindowSeconds) * time.Second
}

// lookupWindow is how long a transaction id can be turned into its offset.
func (o Options) lookupWindow() time.Duration {
	return time.Duration(max(o.DedupWindowSeconds, o.CompletedRetentionSeconds, 900)) * time.Second
}

var sinkHold = regexp.MustCompile(`^[A-Za-z0-9._-]{0,64}$`)

// optionRules says what each option may hold; the values are what JSON decoding makes of them.
var optionRules = map[string]func(any) (any, bool){
	"leaseTime":                   wholeNumber(0, math.MaxInt32),
	"retryLimit":                  wholeNumber(0, math.MaxInt32),
	"retryDelay":                  wholeNumber(0, math.MaxInt32),
	"priority":                    wholeNumber(math.MinInt32, math.MaxInt32),
	"maxSize":                     wholeNumber(0, math.MaxInt32),
	"ttl":                         wholeNumber(0, math.MaxInt32),
	"deadLetterQueue":             boolean,
	"dlqAfterMaxRetries":          boolean,
	"delayedProcessing":           wholeNumber(0, math.MaxInt32),
	"windowBuffer":                wholeNumber(0, math.MaxInt32),
	"retentionEnabled":            boolean,
	"retentionSeconds":            wholeNumber(0, math.MaxInt32),
	"completedRetentionSeconds":   wholeNumber(0, math.MaxInt32),
	"maxWaitTimeSeconds":          wholeNumber(0, math.MaxInt32),
	"encryptionEnabled":           boolean,
	"minPopWaitTime":              clamped(0, maxMinPopWait),
	"dedupWindowSeconds":          wholeNumber(0, math.MaxInt32),
	"retentionSinkHold":           matching(sinkHold),
	"retentionSinkHoldMaxSeconds": wholeNumber(60, 31536000),
	"deadLetterRetentionSeconds":  wholeNumber(0, math.MaxInt32),
}

// optionSince says of options that came after the first release, and change what happens to data, which step of the schema
// the builds know that know the option. One that does not would do something else with the data.
var optionSince = map[string]int{
	"deadLetterRetentionSeconds": 10,
}

// youngest returns those of the sent options that not every release knows, and the step that their builds know.
func youngest(sent map[string]any) (options []string, step int) {
	for key, value := range sent {
		since := optionSince[key]
		if n, isNumber := integer(value); since == 0 || value == nil || isNumber && n == 0 {
			continue // back to what builds do that do not know it
		}
		options, step = append(options, key), max(step, since)
	}
	slices.Sort(options)
	return options, step
}

func integer(v any) (int64, bool) {
	switch n := v.(type) {
	case int:
		return int64(n), true
	case int64:
		return n, true
	case float64:
		return int64(n), n == math.Trunc(n) && math.Abs(n) < 1<<53
	case json.Number:
		if i, err := n.Int64(); err == nil {
			return i, true
		}
		f, err := n.Float64()
		return int64(f), err == nil && f == math.Trunc(f) && math.Abs(f) < 1<<53
	default:
		return 0, false
	}
}

func wholeNumber(low, high int64) func(any) (any, bool) {
	return func(v any) (any, bool) {
		n, ok := integer(v)
		return n, ok && n >= low && n <= high
	}
}

func clamped(low, high int64) func(any) (any, bool) {
	return func(v any) (any, bool) {
		n, ok := integer(v)
		return min(max(n, low), high), ok
	}
}

func boolean(v any) (any, bool) {
	b, ok := v.(bool)
	return b, ok
}

func matching(pattern *regexp.Regexp) func(any) (any, bool) {
	return func(v any) (any, bool) {
		s, ok := v.(string)
		return s, ok && pattern.MatchString(s)
	}
}

// mergeOptions turns a stored document into the one to store: absent keys keep their value, nil sets one back to its
// default, and with replace every option that this build knows goes back first. Keys of other builds survive.
func mergeOptions(stored []byte, created, replace bool, sent map[string]any) (document []byte, ignored []string, err error) {
	merged := map[string]any{}
	if err := json.Unmarshal(stored, &merged); err != nil {
		return nil, nil, fmt.Errorf("read queue options: %w", err)
	}
	wasEncrypted := merged["encryptionEnabled"] == true
	if replace {
		maps.DeleteFunc(merged, func(key string, _ any) bool { return optionRules[key] != nil })
	}
	if created || replace {
		merged["leaseTime"] = configuredLeaseTime
	}
	var invalid, reasons []string
	for key, value := range sent {
		rule := optionRules[key]
		switch {
		case rule == nil:
			ignored = append(ignored, key)
		case value == nil && key == "leaseTime":
			merged[key] = configuredLeaseTime
		case value == nil:
			delete(merged, key)
		default:
			kept, ok := rule(value)
			if !ok {
				invalid = append(invalid, key)
				reasons = append(reasons, fmt.Sprintf("%s cannot be %v", key, value))
				continue
			}
			merged[key] = kept
		}
	}
	if len(invalid) > 0 {
		slices.Sort(invalid)
		slices.Sort(reasons)
		return nil, nil, &InvalidOptionError{Invalid: invalid, Reason: "invalid options: " + strings.Join(reasons, ", ")}
	}
	if wasEncrypted || merged["encryptionEnabled"] == true {
		merged[everEncrypted] = true
	}
	slices.Sort(ignored)
	document, err = json.Marshal(merged)
	return document, ignored, err
}

// echo is every known option with its value, for the answer of configure.
func (o Options) echo() map[string]any {
	text, err := json.Marshal(o)
	if err != nil {
		panic(err) // a struct of numbers, booleans and text
	}
	out := map[string]any{}
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.UseNumber()
	if err := decoder.Decode(&out); err != nil {
		panic(err)
	}
	return out
}

// ResolveOptions turns a stored options document into every option that this build knows, with its value.
func ResolveOptions(stored []byte) (map[string]any, error) {
	o, err := parseOptions(stored)
	if err != nil {
		return nil, err
	}
	return o.echo(), nil
}
