package api

import (
	"net/http"
	"net/url"
	"strings"
)

// bodies are wrong bodies for one path, by body.
func bodies(target string, says map[string]string) (rows []BadInput) {
	for body, text := range says {
		rows = append(rows, BadInput{Target: target, Body: body, Says: text})
	}
	return rows
}

func odd(target, section string, bodies ...string) (rows []BadInput) {
	for _, body := range bodies {
		rows = append(rows, BadInput{Target: target, Body: body, Tolerated: section})
	}
	return rows
}

func badPushes(_, pattern string) []BadInput {
	item := func(members string) string { return `{"items":[{"queue":"q","payload":1},{` + members + `}]}` }
	return bodies(pattern, map[string]string{
		``: noObject, `[]`: noObject, `null`: noObject, `{"items":[`: notJSON, `{}`: `missing field "items"`,
		`{"items":7}`:                                        `expected an array for "items"`,
		`{"items":[7]}`:                                      `expected an object for "items"`,
		item(`"payload":1`):                                  `items[1]: missing field "queue"`,
		item(`"queue":"q"`):                                  `items[1]: missing field "payload"`,
		item(`"queue":7,"payload":1`):                        `expected a string for "queue"`,
		item(`"queue":"q","partition":-1`):                   `expected a string for "partition"`,
		item(`"queue":"q","transactionId":{}`):               `expected a string for "transactionId"`,
		item(`"queue":"` + longName + `"`):                   "items[1]: queue" + tooLong,
		item(`"queue":"q","partition":"` + longName + `"`):   "items[1]: partition" + tooLong,
		item(`"queue":"q","transactionId":"` + longID + `"`): "items[1]: transactionId is longer than 65535 bytes",
		item(`"queue":"q\u0000"`):                            "items[1]: queue" + control,
		item(`"queue":"q","partition":"\u0000"`):             "items[1]: partition" + control,
		item(`"queue":"q","transactionId":"\u0000"`):         "items[1]: transactionId" + control,
	})
}

// badParameters are wrong parameters of pops, which are typed.
func badParameters(path, more string) (rows []BadInput) {
	for parameters, says := range map[string]string{
		"batch=x": "batch: invalid integer", "batch=1.5": "batch: invalid integer", "batch=": "batch: invalid integer", "batch=" + overflow: "batch: invalid integer",
		"partitions=x": "partitions: invalid integer", "timeout=soon": "timeout: invalid integer", "leaseSeconds=1m": "leaseSeconds: invalid integer",
		"wait=1": "wait: provided string was not `true` or `false`", "autoAck=yes": "autoAck: provided string was not",
		"conflation=2": "conflation: provided string was not", "autopilot=on": "autopilot: provided string was not",
		"batch=1&batch=2": "duplicate field `batch`", "consumerGroup=" + longName: "consumerGroup" + tooLong,
		"conflation=true": "conflation requires consumerGroup", "conflation=true&consumerGroup=g&autoAck=true": "conflation cannot be combined with autoAck",
	} {
		rows = append(rows, BadInput{Target: path + "?" + parameters + more, Says: says})
	}
	for parameters, section := range map[string]string{
		"batch=-1": "4.2", "partitions=-1": "4.2", "leaseSeconds=-1": "4.2", "timeout=-1": "4.2", "colour=blue": "1.3",
		"consumerGroup=g&subscriptionMode=typo": "4.3", "consumerGroup=g&subscriptionFrom=typo": "4.3",
	} {
		rows = append(rows, BadInput{Target: path + "?" + parameters + more, Tolerated: section})
	}
	return rows
}

func badDiscoveries(_, pattern string) []BadInput {
	return append(
		badParameters(pattern, "&task=t"),
		BadInput{Target: pattern, Says: "namespace or task is required"},
		BadInput{Target: pattern + "?namespace=" + longName, Says: "namespace" + tooLong},
		BadInput{Target: pattern + "?namespace=%00", Says: "namespace" + control},
		BadInput{Target: pattern + "?task=" + longName, Says: "task" + tooLong},
		BadInput{Target: pattern + "?task=a%0ab", Says: "task" + control},
	)
}

// named fills the names of a pattern in; those that are not given are "x".
func named(pattern string, names ...string) string {
	pieces := strings.Split(pattern, "/")
	for i, piece := range pieces {
		if !strings.HasPrefix(piece, ":") {
			continue
		}
		pieces[i] = "x"
		for k := 0; k < len(names); k += 2 {
			if names[k] == piece[1:] {
				pieces[i] = url.PathEscape(names[k+1])
			}
		}
	}
	return strings.Join(pieces, "/")
}

// badNames are names that cannot be. says names the field as the answer has it.
func badNames(pattern, name, says string) []BadInput {
	return []BadInput{
		{Target: named(pattern, name, longName), Says: says + tooLong},
		{Target: named(pattern, name, "a\x00b"), Says: says + control},
		{Target: named(pattern, name, "a\xffb"), Says: says + " is not valid UTF-8"},
	}
}

func badPops(_, pattern string) []BadInput {
	rows := append(badParameters(named(pattern), ""), badNames(pattern, "queue", "queue")...)
	if strings.Contains(pattern, ":partition") {
		rows = append(rows, badNames(pattern, "partition", "partition")...)
	}
	return rows
}

func badAcks(_, pattern string) []BadInput {
	rows := bodies(pattern, map[string]string{
		``: noObject, `[]`: noObject, `{`: notJSON, `{"transactionId":1}`: `expected a string for "transactionId"`,
		`{"partitionId":-1}`: `expected a string for "partitionId"`, `{"status":true}`: `expected a string for "status"`,
		`{"leaseId":[]}`: `expected a string for "leaseId"`, `{"error":{}}`: `expected a string for "error"`,
		`{"consumerGroup":7}`: `expected a string for "consumerGroup"`,
	})
	return append(rows, odd(pattern, "4.5", `{}`, `{"transactionId":"t","partitionId":"nonsense"}`, `{"transactionId":"t","partitionId":"\u0000"}`,
		`{"transactionId":"\u0000","partitionId":"`+somePartition+`"}`, `{"transactionId":"`+longID+`","partitionId":"`+somePartition+`"}`,
		`{"transactionId":"t","partitionId":"`+somePartition+`","status":"typo","leaseId":"\u0000","consumerGroup":"`+longName+`"}`)...)
}

func badBatches(_, pattern string) []BadInput {
	rows := bodies(pattern, map[string]string{
		``: noObject, `[]`: noObject, `{"acknowledgments":[{]}`: notJSON, `{}`: `missing field "acknowledgments"`,
		`{"acknowledgments":{}}`: `expected an array for "acknowledgments"`, `{"acknowledgments":[{},1]}`: `expected an object for "acknowledgments"`,
		`{"acknowledgments":[{"status":5}]}`: `expected a string for "status"`, `{"acknowledgments":[],"consumerGroup":5}`: `expected a string for "consumerGroup"`,
	})
	return append(rows, odd(pattern, "4.5", `{"acknowledgments":[{}]}`, `{"acknowledgments":[{"transactionId":"\u0000","partitionId":"x","status":"typo"}],"consumerGroup":"\u0000"}`)...)
}

func badTransactions(_, pattern string) []BadInput {
	operation := func(text string) string { return `{"operations":[{"type":"push","queue":"q"},` + text + `]}` }
	push := func(members string) string { return operation(`{"type":"push",` + members + `}`) }
	ack := func(members string) string { return operation(`{"type":"ack",` + members + `}`) }
	rows := bodies(pattern, map[string]string{
		``: notJSON, `{`: notJSON, `[]`: "requires an operations array", `{}`: "requires an operations array", `{"operations":7}`: "requires an operations array",
		operation(`7`):                                          "operations[1] must be an object",
		operation(`{}`):                                         "operations[1].type is required",
		operation(`{"type":"pop"}`):                             `operations[1].type is "pop"`,
		push(`"queue":7`):                                       "operations[1].queue must be a string",
		push(`"items":7`):                                       "operations[1].items must be an array",
		push(`"items":[7]`):                                     "operations[1].items[0] must be an object",
		push(`"items":[{}]`):                                    "operations[1].items[0].queue is required",
		push(`"queue":"` + longName + `"`):                      "operations[1].queue" + tooLong,
		push(`"queue":"q","partition":"\u0000"`):                "operations[1].partition" + control,
		push(`"queue":"q","traceId":"nonsense"`):                "operations[1].traceId must be a UUID",
		push(`"queue":"q","transactionId":-1`):                  "operations[1].transactionId must be a string",
		push(`"queue":"q","transactionId":"\u0000"`):            "operations[1].transactionId" + control,
		push(`"queue":"q","transactionId":"` + longID + `"`):    "operations[1].transactionId is longer than 65535 bytes",
		ack(`"partitionId":"p"`):                                "operations[1].transactionId is required",
		ack(`"transactionId":"t"`):                              "operations[1].partitionId is required",
		ack(`"transactionId":"t","partitionId":7`):              "operations[1].partitionId must be a string",
		ack(`"transactionId":"t","partitionId":"p","status":1`): "operations[1].status must be a string",
		`{"operations":[],"requiredLeases":"l"}`:                "requiredLeases must be an array of strings",
		`{"operations":[],"requiredLeases":[1]}`:                "requiredLeases[0] must be a string",
		`{"operations":[],"kv":[{}]}`:                           "kv is not supported",
		`{"operations":[],"timers":7}`:                          "timers is not supported",
	})
	// These are rolled back.
	return append(rows, odd(pattern, "4.6", `{"operations":[{"type":"ack","transactionId":"t","partitionId":"nonsense"}]}`,
		`{"operations":[{"type":"ack","transactionId":"\u0000","partitionId":"`+somePartition+`","leaseId":"\u0000","consumerGroup":"`+longName+`"}]}`)...)
}

func badExtends(_, pattern string) []BadInput {
	rows := odd(named(pattern), "4.7", ``, `{`, `[]`, `{"seconds":"x"}`, `{"seconds":-1}`, `{"seconds":1.5}`, `{"seconds":`+overflow+`}`)
	rows = append(rows, odd(named(pattern, "leaseId", "a\x00b"), "4.7", ``)...)
	return append(rows, odd(named(pattern, "leaseId", longName), "4.7", ``)...)
}

func badConfigures(_, pattern string) []BadInput {
	rows := bodies(pattern, map[string]string{
		``: noObject, `7`: noObject, `{"queue":"q"`: notJSON, `{}`: "queue is required", `{"queue":5}`: "queue is required and must be a string",
		`{"queue":"q","mode":"append"}`:      "mode must be merge or replace",
		`{"queue":"q","ifVersion":-1}`:       "ifVersion must be a positive integer",
		`{"queue":"q","options":[]}`:         "options must be an object",
		`{"queue":"q","namespace":{}}`:       "namespace must be a string",
		`{"queue":"q","options":{"task":1}}`: "task must be a string",
		`{"queue":"` + longName + `"}`:       "queue" + tooLong,
		`{"queue":"q\u0000"}`:                "queue" + control,
		`{"queue":"q","task":"\u0000"}`:      "task" + control,
	})
	for body, says := range map[string]string{
		`{"queue":"q","leaseTime":"long"}`:                        "leaseTime",
		`{"queue":"q","options":{"leaseTime":-1}}`:                "leaseTime",
		`{"queue":"q","options":{"retryLimit":` + overflow + `}}`: "retryLimit",
		`{"queue":"q","options":{"deadLetterQueue":"yes"}}`:       "deadLetterQueue",
		`{"queue":"q","options":{"retentionSinkHold":"\u0000"}}`:  "retentionSinkHold",
	} {
		rows = append(rows, BadInput{Target: pattern, Body: body, Says: says, Deep: true})
	}
	return rows
}

func badFetches(_, pattern string) []BadInput {
	entry := func(members string) string { return `{"entries":[{"queue":"q"},{` + members + `}]}` }
	return bodies(pattern, map[string]string{
		``: notJSON, `[]`: noObject, `{`: notJSON, `{"entries":{}}`: "entries must be an array", `{"entries":[1]}`: "entries[0] must be an object",
		entry(``): "entries[1].queue is required", entry(`"queue":7`): "entries[1].queue must be a string",
		entry(`"queue":"` + longName + `"`): "entries[1].queue" + tooLong, entry(`"queue":"\u0000"`): "entries[1].queue" + control,
		entry(`"queue":"q","partition":{}`): "entries[1].partition must be a string or a number",
		entry(`"queue":"q","offset":-1`):    "entries[1].offset must be a whole number", entry(`"queue":"q","offset":` + overflow): "entries[1].offset must be",
		entry(`"queue":"q","maxBytes":-1`): "entries[1].maxBytes must be a whole number",
		`{"entries":[],"maxWaitMs":"1"}`:   "maxWaitMs must be a whole number", `{"entries":[],"minBytes":-1}`: "minBytes must be a whole number",
		`{"entries":[` + strings.Repeat(`{"queue":"q"},`, maxFetchEntries) + `{"queue":"q"}]}`: "entries holds 1025 elements, at most 1024",
	})
}

func badChanges(_, pattern string) []BadInput {
	rows := bodies(pattern, map[string]string{
		``: notJSON, `[]`: noObject, `{"entries":7}`: "entries must be an array", `{"entries":["q"]}`: "entries[0] must be an object",
		`{"entries":[{}]}`: "entries[0].queue is required", `{"entries":[{"queue":"q\u0000"}]}`: "entries[0].queue" + control,
		`{"entries":[{"queue":"` + longName + `"}]}`: "entries[0].queue" + tooLong, `{"entries":[{"queue":"q","since":7}]}`: "entries[0].since must be a string",
		`{"entries":[{"queue":"q","after":[]}]}`: "entries[0].after must be a string", `{"entries":[{"queue":"q","limit":"all"}]}`: "entries[0].limit must be a whole number",
		`{"entries":[` + strings.Repeat(`{"queue":"q"},`, maxChangedEntries) + `{"queue":"q"}]}`: "entries holds 65 elements, at most 64",
	})
	return append(rows, odd(pattern, "9.6", `{"entries":[{"queue":"q","since":"yesterday"}]}`, `{"entries":[{"queue":"q","after":"?"}]}`)...)
}

func badStreamQueries(_, pattern string) []BadInput {
	query := func(members string) string {
		return `{"name":"n","source_queue":"in","config_hash":"h",` + members + `}`
	}
	return bodies(pattern, map[string]string{
		``: notJSON, `[]`: noObject, `{`: notJSON, `{}`: "name is required", query(`"name":""`): "name is required", query(`"name":7`): "name must be a string",
		query(`"source_queue":null`): "source_queue is required", query(`"config_hash":1`): "config_hash must be a string",
		query(`"name":"` + longName + `"`): "name" + tooLong, query(`"name":"\u0000"`): "name" + control, query(`"config_hash":"\u0000"`): "config_hash" + control,
		query(`"source_queue":"\u0000"`): "source_queue" + control, query(`"sink_queue":"\u0000"`): "sink_queue" + control,
		query(`"sink_queue":7`): "sink_queue must be a string", query(`"sink_queue":"` + longName + `"`): "sink_queue" + tooLong,
		query(`"reset":1`): "reset must be true or false",
	})
}

func badStates(_, pattern string) []BadInput {
	state := func(members string) string {
		return `{"query_id":"` + somePartition + `","partition_id":"` + somePartition + `",` + members + `}`
	}
	rows := bodies(pattern, map[string]string{
		``: notJSON, `7`: noObject, `{}`: "query_id is required", `{"query_id":7}`: "query_id must be a string", `{"query_id":"q"}`: "partition_id is required",
		state(`"keys":"k"`): "keys must be an array of strings", state(`"keys":[1]`): "keys[0] must be a string", state(`"key_prefix":1`): "key_prefix must be a string",
		state(`"ripe_at_or_before":"5"`): "ripe_at_or_before must be a number", state(`"ripe_at_or_before":1e999`): "ripe_at_or_before must be a number",
	})
	for _, body := range []string{`{"query_id":"nonsense","partition_id":"\u0000"}`, state(`"keys":["\u0000"]`), state(`"key_prefix":"` + longID + `"`)} {
		rows = append(rows, BadInput{Target: pattern, Body: body, Says: "not found", Status: http.StatusNotFound}) // section 5.2
	}
	return rows
}

func badCycles(_, pattern string) []BadInput {
	cycle := func(members string) string {
		return `{"query_id":"` + somePartition + `","partition_id":"` + somePartition + `",` + members + `}`
	}
	rows := bodies(pattern, map[string]string{
		``: notJSON, `[]`: noObject, `{}`: "query_id is required", `{"query_id":"q","partition_id":7}`: "partition_id must be a string",
		cycle(`"consumer_group":7`): "consumer_group must be a string", cycle(`"consumer_group":"` + longName + `"`): "consumer_group" + tooLong,
		cycle(`"release_lease":"no"`): "release_lease must be true or false",
		cycle(`"state_ops":{}`):       "state_ops must be an array", cycle(`"state_ops":[7]`): "state_ops[0] must be an object",
		cycle(`"state_ops":[{"type":"put","key":"k","value":1}]`):         `state_ops[0].type is "put"`,
		cycle(`"state_ops":[{"type":"upsert","value":1}]`):                "state_ops[0].key is required",
		cycle(`"state_ops":[{"type":"upsert","key":"k"}]`):                "state_ops[0].value is required",
		cycle(`"state_ops":[{"type":"delete","key":"` + longName + `"}]`): "state_ops[0].key" + tooLong,
		cycle(`"push_items":7`):                                           "push_items must be an array", cycle(`"push_items":[{"queue":7}]`): "push_items[0].queue",
		cycle(`"push_items":[{"queue":"q\u0000"}]`): "push_items[0].queue" + control, cycle(`"push_items":[{"queue":"q","partition":7}]`): "push_items[0].partition must be a string",
		cycle(`"ack":[]`): "ack must be an object", cycle(`"ack":{"count":-1}`): "ack.count must be a whole number", cycle(`"ack":{"leaseId":7}`): "ack.leaseId must be a string",
		cycle(`"ack":{"count":` + overflow + `}`): "ack.count must be a whole number", cycle(`"ack":{"status":7}`): "ack.status must be a string",
	})
	return append(rows, BadInput{Target: pattern, Body: `{"query_id":"nonsense","partition_id":"\u0000"}`, Says: "not found", Status: http.StatusNotFound}) // section 5.3
}

func badTraces(_, pattern string) []BadInput {
	trace := func(members string) string {
		return `{"transactionId":"t","partitionId":"` + somePartition + `","data":1,` + members + `}`
	}
	rows := bodies(pattern, map[string]string{
		``: noObject, `[]`: noObject, `{`: notJSON, `{"data":1}`: "transactionId and partitionId are required", `{"transactionId":"t","partitionId":"p"}`: "data is required",
		trace(`"transactionId":7`): `expected a string for "transactionId"`, trace(`"partitionId":-1`): `expected a string for "partitionId"`,
		trace(`"eventType":7`): `expected a string for "eventType"`, trace(`"traceNames":[1]`): `expected a string for "traceNames"`,
		trace(`"traceNames":{}`): `expected a string for "traceNames"`, trace(`"consumerGroup":"` + longName + `"`): "consumerGroup" + tooLong,
		trace(`"eventType":"` + longName + `"`): "eventType" + tooLong, trace(`"traceNames":["` + longName + `"]`): "traceNames[0]" + tooLong,
		trace(`"transactionId":"` + longID + `"`): "transactionId is longer than 65535 bytes",
	})
	for _, body := range []string{trace(`"partitionId":"nonsense"`), trace(`"partitionId":"\u0000"`), trace(`"transactionId":"\u0000"`)} {
		rows = append(rows, BadInput{Target: pattern, Body: body, Says: "Message not found", Status: http.StatusNotFound}) // section 3
	}
	return rows
}

func badHints(_, pattern string) []BadInput {
	return bodies(pattern, map[string]string{
		``: noObject, `[]`: noObject, `{`: notJSON, `{}`: "queue is required", `{"queue":7}`: "queue is required and must be a string",
		`{"queue":"q","partition":7}`: "partition must be a string", `{"queue":"\u0000"}`: "queue" + control, `{"queue":"` + longName + `"}`: "queue" + tooLong,
		`{"queue":"q","partition":"\u0000"}`: "partition" + control,
	})
}

func badSwitches(_, pattern string) []BadInput {
	return bodies(pattern, map[string]string{
		``: noObject, `[]`: noObject, `{`: notJSON, `{}`: "enabled (boolean) is required", `{"enabled":"true"}`: "enabled (boolean) is required",
		`{"enabled":null}`: "enabled (boolean) is required", `{"enabled":1}`: "enabled (boolean) is required",
	})
}

func badReplays(_, pattern string) []BadInput {
	rows := bodies(named(pattern, "id", "7"), map[string]string{
		`{`: notJSON, `[]`: noObject, `{"queue":7}`: "queue must be a string", `{"queue":" "}`: "queue must not be blank", `{"partition":-1}`: "partition must be a string",
		`{"queue":"` + longName + `"}`: "queue" + tooLong, `{"partition":"\u0000"}`: "partition" + control,
	})
	for _, id := range []string{"nonsense", "-1", overflow, "1.5", "a\x00b", longName} {
		rows = append(rows, BadInput{Target: named(pattern, "id", id), Says: "There is no such dead letter", Status: http.StatusNotFound}) // section 6.3
	}
	return rows
}

func badSubscriptions(_, pattern string) []BadInput {
	rows := bodies(named(pattern), map[string]string{
		``: noObject, `[]`: noObject, `{`: notJSON, `{}`: "subscriptionTimestamp is required", `{"subscriptionTimestamp":7}`: `expected a string for "subscriptionTimestamp"`,
		`{"subscriptionTimestamp":"now"}`: "subscriptionTimestamp must be an ISO 8601 time", `{"subscriptionTimestamp":"2031-13-01"}`: "subscriptionTimestamp must be",
	})
	return append(rows, BadInput{Target: named(pattern, "group", longName), Body: `{"subscriptionTimestamp":"2031-01-01"}`, Says: "consumerGroup" + tooLong})
}

func badSeeks(_, pattern string) []BadInput {
	rows := bodies(named(pattern), map[string]string{
		`[]`: noObject, `{`: notJSON, `{"toEnd":false}`: "Must specify toEnd=true or a timestamp", `{"toEnd":"yes"}`: "toEnd must be true or false",
		`{"timestamp":1700000000}`: `expected a string for "timestamp"`, `{"timestamp":"yesterday"}`: "timestamp must be an ISO 8601 time",
	})
	names := append(badNames(pattern, "queue", "queue"), BadInput{Target: named(pattern, "group", longName), Says: "consumerGroup" + tooLong})
	if strings.Contains(pattern, ":partition") {
		names = append(names, badNames(pattern, "partition", "partition")...)
	}
	for _, row := range names {
		row.Body = `{"toEnd":true}`
		rows = append(rows, row)
	}
	return rows
}
