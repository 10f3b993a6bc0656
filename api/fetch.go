package api

import (
	"encoding/base64"
	"errors"
	"fmt"
	"math"
	"net/http"
	"time"

	"waggle/api/jsonwire"
	"waggle/broker"
)

const (
	maxFetchEntries   = 1024
	defaultFetchBytes = 1 << 20
	maxFetchBytes     = 8 << 20
	maxFetchWait      = 30_000
	maxChangedEntries = 64
	maxChangedLimit   = 1000
)

// fetch is POST /api/v1/fetch: reads by offset, which move no cursor. Pop maintenance does not concern it.
func (s *Server) fetch(x *exchange) {
	b := x.readBody()
	if b == nil {
		return
	}
	request, err := readFetch(b.data)
	b.release()
	if err != nil {
		x.fail(http.StatusBadRequest, err.Error(), "")
		return
	}
	request.Tenant = x.tenant
	answers, release, err := s.parts.Broker.Fetch(x.r.Context(), request)
	if err != nil {
		x.failBroker("fetch failed", err)
		return
	}
	defer release()
	x.answer(http.StatusOK, func(dst []byte) []byte {
		dst = append(dst, `{"entries":[`...)
		for i := range answers {
			if i > 0 {
				dst = append(dst, ',')
			}
			dst = appendFetched(dst, &request.Entries[i], &answers[i])
		}
		return append(dst, `]}`...)
	})
}

func appendFetched(dst []byte, entry *broker.FetchEntry, answer *broker.Fetched) []byte {
	dst = append(dst, `{"queue":`...)
	dst = jsonwire.AppendString(dst, entry.Queue)
	dst = append(dst, `,"partition":`...)
	dst = jsonwire.AppendString(dst, entry.Partition)
	dst = append(dst, `,"records":[`...)
	for i := range answer.Records {
		if i > 0 {
			dst = append(dst, ',')
		}
		record := &answer.Records[i]
		dst = appendCount(dst, `{"offset":`, record.Offset)
		dst = append(dst, `,"transactionId":`...)
		dst = jsonwire.AppendString(dst, record.TransactionID)
		dst = append(dst, `,"payload":`...)
		dst = append(dst, record.Payload...)
		dst = appendCount(dst, `,"ts":`, record.CreatedAt.UnixMilli())
		dst = append(dst, '}')
	}
	dst = appendCount(dst, `],"highWatermark":`, answer.High)
	dst = appendCount(dst, `,"logStartOffset":`, answer.Start)
	return appendProblem(dst, answer.Problem)
}

// appendProblem ends the object of an entry.
func appendProblem(dst []byte, problem broker.FetchProblem) []byte {
	if problem != "" {
		dst = append(dst, `,"error":`...)
		dst = jsonwire.AppendString(dst, string(problem))
	}
	return append(dst, '}')
}

// readEntries checks the body strictly and returns its fields and those of its entries. No entries are none.
func readEntries(data []byte, limit int) (body object, entries []object, err error) {
	if err := checkJSON(data); err != nil {
		return nil, nil, badBody(err)
	}
	body, ok := objectOf(data)
	if !ok {
		return nil, nil, errors.New("bad body: expected an object")
	}
	raw := body["entries"]
	if raw == nil || string(raw) == "null" {
		return body, nil, nil
	}
	items, ok := arrayOf(raw)
	if !ok {
		return nil, nil, errors.New("entries must be an array")
	}
	if len(items) > limit {
		return nil, nil, fmt.Errorf("entries holds %d elements, at most %d are allowed", len(items), limit)
	}
	entries = make([]object, len(items))
	for i, item := range items {
		if entries[i], ok = objectOf(item); !ok {
			return nil, nil, fmt.Errorf("entries[%d] must be an object", i)
		}
	}
	return body, entries, nil
}

func readFetch(data []byte) (request broker.FetchRequest, err error) {
	body, entries, err := readEntries(data, maxFetchEntries)
	if err != nil {
		return request, err
	}
	wait, err := body.number("maxWaitMs", 0, 0, math.MaxInt64)
	if err != nil {
		return request, err
	}
	request.MaxWait = time.Duration(min(wait, maxFetchWait)) * time.Millisecond
	least, err := body.number("minBytes", 1, 0, math.MaxInt64)
	if err != nil {
		return request, err
	}
	request.MinBytes = int(min(least, maxFetchBytes*maxFetchEntries))
	for i, fields := range entries {
		entry, err := readFetchEntry(fields)
		if err != nil {
			return request, fmt.Errorf("entries[%d].%w", i, err)
		}
		request.Entries = append(request.Entries, entry)
	}
	return request, nil
}

func readFetchEntry(fields object) (entry broker.FetchEntry, err error) {
	queue, err := fields.text("queue", true)
	if err != nil {
		return entry, err
	}
	entry.Queue, entry.Partition = *queue, broker.DefaultPartition
	if raw := fields["partition"]; raw != nil && (raw[0] == '-' || raw[0] >= '0' && raw[0] <= '9') {
		entry.Partition = string(raw)
	} else if partition, err := fields.text("partition", false); err != nil {
		return entry, errors.New("partition must be a string or a number")
	} else if partition != nil {
		entry.Partition = *partition
	}
	if err := errors.Join(checkName("queue", entry.Queue), checkName("partition", entry.Partition)); err != nil {
		return entry, err
	}
	if entry.Offset, err = fields.number("offset", 0, 0, math.MaxInt64); err != nil {
		return entry, err
	}
	bytes, err := fields.number("maxBytes", defaultFetchBytes, 0, math.MaxInt64)
	entry.MaxBytes = int(min(max(bytes, 1), maxFetchBytes))
	return entry, err
}

// changedEntry is an entry that could be read, or a cursor that could not.
type changedEntry struct {
	broker.ChangedEntry
	badCursor bool
}

// changedPartitions is POST /api/v1/partitions/changed.
func (s *Server) changedPartitions(x *exchange) {
	b := x.readBody()
	if b == nil {
		return
	}
	entries, err := readChanged(b.data)
	b.release()
	if err != nil {
		x.fail(http.StatusBadRequest, err.Error(), "")
		return
	}
	var asked []broker.ChangedEntry
	for i := range entries {
		if !entries[i].badCursor {
			asked = append(asked, entries[i].ChangedEntry)
		}
	}
	changes, err := s.parts.Broker.Changed(x.r.Context(), x.tenant, asked)
	if err != nil {
		x.failBroker("fetch failed", err)
		return
	}
	x.answer(http.StatusOK, func(dst []byte) []byte {
		dst = append(dst, `{"safeTime":`...)
		dst = jsonwire.AppendMicros(dst, changes.Safe)
		dst = appendFlag(dst, `,"safeTimeDegraded":`, changes.Degraded)
		dst = append(dst, `,"entries":[`...)
		next := 0
		for i := range entries {
			if i > 0 {
				dst = append(dst, ',')
			}
			if entries[i].badCursor {
				dst = appendChangedProblem(dst, entries[i].Queue, "BAD_CURSOR")
				continue
			}
			dst = appendChanged(dst, entries[i].Queue, &changes.Entries[next])
			next++
		}
		return append(dst, `]}`...)
	})
}

func appendChangedProblem(dst []byte, queue string, problem broker.FetchProblem) []byte {
	dst = append(dst, `{"queue":`...)
	return appendProblem(jsonwire.AppendString(dst, queue), problem)
}

func appendChanged(dst []byte, queue string, answer *broker.ChangedAnswer) []byte {
	if answer.Problem != "" {
		return appendChangedProblem(dst, queue, answer.Problem)
	}
	dst = append(dst, `{"queue":`...)
	dst = jsonwire.AppendString(dst, queue)
	dst = append(dst, `,"partitions":[`...)
	next := ""
	for i := range answer.Partitions {
		if i > 0 {
			dst = append(dst, ',')
		}
		p := &answer.Partitions[i]
		next = p.Name
		dst = append(dst, `{"name":`...)
		dst = jsonwire.AppendString(dst, p.Name)
		dst = appendCount(dst, `,"lastOffset":`, p.Last)
		dst = appendCount(dst, `,"logStart":`, p.Start)
		dst = append(dst, `,"lastWriteAt":`...)
		dst = jsonwire.AppendMicros(dst, p.WrittenAt)
		dst = append(dst, '}')
	}
	dst = append(dst, `],"next":`...)
	if !answer.More {
		return append(dst, `null}`...)
	}
	return append(jsonwire.AppendString(dst, base64.RawURLEncoding.EncodeToString([]byte(next))), '}')
}

func readChanged(data []byte) ([]changedEntry, error) {
	_, entries, err := readEntries(data, maxChangedEntries)
	if err != nil {
		return nil, err
	}
	out := make([]changedEntry, len(entries))
	for i, fields := range entries {
		if err := readChangedEntry(fields, &out[i]); err != nil {
			return nil, fmt.Errorf("entries[%d].%w", i, err)
		}
	}
	return out, nil
}

func readChangedEntry(fields object, entry *changedEntry) error {
	queue, err := fields.text("queue", true)
	if err != nil {
		return err
	}
	if entry.Queue = *queue; checkName("queue", entry.Queue) != nil {
		return checkName("queue", entry.Queue)
	}
	since, err := fields.text("since", false)
	if err != nil {
		return err
	}
	if since != nil && *since != "" {
		if entry.Since, err = broker.ParseTimestamp(*since); err != nil {
			entry.badCursor = true
		}
	}
	after, err := fields.text("after", false)
	if err != nil {
		return err
	}
	if after != nil {
		name, err := base64.RawURLEncoding.DecodeString(*after)
		text := string(name)
		entry.After = &text
		entry.badCursor = entry.badCursor || err != nil || checkName("after", text) != nil
	}
	limit, err := fields.number("limit", maxChangedLimit, math.MinInt64, math.MaxInt64)
	entry.Limit = int(min(max(limit, 1), maxChangedLimit))
	return err
}
