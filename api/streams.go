package api

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"net/http"
	"strconv"

	"go.uber.org/zap"

	"waggle/api/jsonwire"
	"waggle/broker"
)

const (
	maxStateKeys = 10_000
	maxStateOps  = 100_000
	maxStateKey  = 1024
)

// readFields reads a body that is an object, or answers 400. The fields are good until the body is released.
func (x *exchange) readFields() (*body, object) {
	b := x.readBody()
	if b == nil {
		return nil, nil
	}
	var fields object
	err := checkJSON(b.data)
	if err == nil {
		var ok bool
		if fields, ok = objectOf(b.data); !ok {
			err = errors.New("expected an object")
		}
	}
	if err != nil {
		b.release()
		x.fail(http.StatusBadRequest, badBody(err).Error(), "")
		return nil, nil
	}
	return b, fields
}

// needText is a text that must be there and not be empty.
func (o object) needText(name string) (string, error) {
	text, err := o.text(name, false)
	if err != nil {
		return "", err
	}
	if text == nil || *text == "" {
		return "", fmt.Errorf("%s is required", name)
	}
	return *text, nil
}

// registerStream is POST /streams/v1/queries.
func (s *Server) registerStream(x *exchange) {
	b, fields := x.readFields()
	if b == nil {
		return
	}
	defer b.release()
	q, reset, err := readStreamQuery(fields)
	if err != nil {
		x.fail(http.StatusBadRequest, err.Error(), "")
		return
	}
	q.Tenant = x.tenant
	r, err := s.parts.Broker.RegisterStream(x.r.Context(), q, reset)
	switch {
	case errors.Is(err, broker.ErrLimit):
		x.answer(http.StatusForbidden, func(dst []byte) []byte {
			dst = append(dst, `{"success":false,"denied":true,"error":`...)
			return append(jsonwire.AppendString(dst, err.Error()), '}')
		})
		return
	case err != nil:
		x.failBroker("register failed", err)
		return
	}
	status := http.StatusOK
	if r.Conflict {
		status = http.StatusConflict
	}
	x.answer(status, func(dst []byte) []byte {
		dst = appendFlag(dst, `{"success":`, !r.Conflict)
		if r.Conflict {
			dst = append(dst, `,"error":`...)
			dst = jsonwire.AppendString(dst, fmt.Sprintf("config_hash mismatch: query %q is registered with another configuration", q.Name))
		}
		dst = append(dst, `,"query_id":`...)
		dst = jsonwire.AppendUUID(dst, r.ID)
		dst = append(dst, `,"name":`...)
		dst = jsonwire.AppendString(dst, q.Name)
		dst = append(dst, `,"config_hash":`...)
		dst = jsonwire.AppendString(dst, r.ConfigHash)
		if !r.Conflict {
			dst = appendFlag(dst, `,"fresh":`, r.Fresh)
			dst = appendFlag(dst, `,"reset":`, r.Reset)
		}
		return append(dst, '}')
	})
}

func readStreamQuery(fields object) (q broker.StreamQuery, reset bool, err error) {
	for _, field := range []struct {
		name string
		to   *string
	}{{"name", &q.Name}, {"source_queue", &q.SourceQueue}, {"config_hash", &q.ConfigHash}} {
		if *field.to, err = fields.needText(field.name); err != nil {
			return q, false, err
		}
		if err := checkName(field.name, *field.to); err != nil {
			return q, false, err
		}
	}
	if q.SinkQueue, err = fields.text("sink_queue", false); err != nil {
		return q, false, err
	}
	if err := checkOptional("sink_queue", q.SinkQueue); err != nil {
		return q, false, err
	}
	reset, err = fields.flag("reset", false)
	return q, reset, err
}

// readState is POST /streams/v1/state/get.
func (s *Server) readState(x *exchange) {
	b, fields := x.readFields()
	if b == nil {
		return
	}
	request, err := readStateRequest(fields)
	b.release()
	if err != nil {
		x.fail(http.StatusBadRequest, err.Error(), "")
		return
	}
	request.Tenant = x.tenant
	rows, err := s.parts.Broker.StreamState(x.r.Context(), request)
	switch {
	case errors.Is(err, broker.ErrNotFound):
		x.fail(http.StatusNotFound, "not found", "")
	case errors.Is(err, broker.ErrStateTooLarge):
		x.fail(http.StatusBadRequest, err.Error(), "")
	case err != nil:
		x.failBroker("state not read", err)
	default:
		x.answer(http.StatusOK, func(dst []byte) []byte {
			dst = append(dst, `{"success":true,"rows":[`...)
			for i, row := range rows {
				if i > 0 {
					dst = append(dst, ',')
				}
				dst = append(dst, `{"key":`...)
				dst = jsonwire.AppendString(dst, row.Key)
				dst = append(dst, `,"value":`...)
				dst = append(dst, row.Value...)
				dst = append(dst, `,"updated_at":`...)
				dst = append(jsonwire.AppendMillis(dst, row.UpdatedAt), '}')
			}
			return append(dst, `]}`...)
		})
	}
}

func readStateRequest(fields object) (r broker.StateRequest, err error) {
	if r.QueryID, err = fields.needText("query_id"); err != nil {
		return r, err
	}
	if r.PartitionID, err = fields.needText("partition_id"); err != nil {
		return r, err
	}
	if r.Keys, err = fields.texts("keys"); err != nil {
		return r, err
	}
	if len(r.Keys) > maxStateKeys {
		return r, fmt.Errorf("keys holds %d elements, at most %d are allowed", len(r.Keys), maxStateKeys)
	}
	prefix, err := fields.text("key_prefix", false)
	if err != nil {
		return r, err
	}
	if prefix != nil {
		r.Prefix = *prefix
	}
	if raw := string(fields["ripe_at_or_before"]); raw != "" && raw != "null" {
		ripe, err := strconv.ParseFloat(raw, 64)
		if err != nil || math.IsInf(ripe, 0) {
			return r, errors.New("ripe_at_or_before must be a number")
		}
		r.RipeUpTo = &ripe
	}
	return r, nil
}

// cycle is POST /streams/v1/cycle. A cycle that was rolled back is an answer of status 200 like one that was committed.
func (s *Server) cycle(x *exchange) {
	b, fields := x.readFields()
	if b == nil {
		return
	}
	// Payloads and values are cut from the body, so it is kept until they are stored.
	defer b.release()
	c, err := readCycle(fields)
	if err != nil {
		x.fail(http.StatusBadRequest, err.Error(), "")
		return
	}
	c.Tenant, c.ProducerSub = x.tenant, x.producerSub
	answer, err := s.parts.Broker.Cycle(x.r.Context(), c)
	var rollback *broker.Rollback
	switch {
	case errors.Is(err, broker.ErrNotFound):
		x.fail(http.StatusNotFound, "not found", "")
	case errors.As(err, &rollback):
		s.logger.Debug("cycle rolled back", zap.String("request_id", x.requestID()), zap.Error(err))
		x.answer(http.StatusOK, func(dst []byte) []byte {
			dst = appendCycleHead(dst, false, &c)
			dst = append(dst, `,"error":`...)
			return append(jsonwire.AppendString(dst, rollback.Text), '}')
		})
	case err != nil:
		x.failBroker("cycle failed", err)
	default:
		x.answer(http.StatusOK, func(dst []byte) []byte { return appendCycleAnswer(dst, &c, &answer) })
	}
}

func appendCycleHead(dst []byte, success bool, c *broker.Cycle) []byte {
	dst = appendFlag(dst, `{"success":`, success)
	dst = append(dst, `,"query_id":`...)
	dst = jsonwire.AppendString(dst, c.QueryID)
	dst = append(dst, `,"partition_id":`...)
	return jsonwire.AppendString(dst, c.PartitionID)
}

func appendCycleAnswer(dst []byte, c *broker.Cycle, answer *broker.CycleAnswer) []byte {
	dst = appendCycleHead(dst, true, c)
	dst = append(dst, `,"queueName":`...)
	dst = jsonwire.AppendString(dst, answer.Queue)
	dst = appendCount(dst, `,"state_ops_applied":`, int64(len(c.State)))
	dst = append(dst, `,"push_results":[`...)
	for i, p := range answer.Pushed {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = append(dst, `{"queue":`...)
		dst = jsonwire.AppendString(dst, p.Queue)
		dst = append(dst, `,"partition":`...)
		dst = jsonwire.AppendString(dst, p.Partition)
		if p.Base < 0 {
			dst = append(dst, `,"status":"duplicate","baseOffset":null}`...)
			continue
		}
		dst = append(appendCount(dst, `,"status":"queued","baseOffset":`, p.Base), '}')
	}
	dst = append(dst, `],"ack_result":`...)
	if c.Ack == nil {
		return append(dst, `null}`...)
	}
	dst = appendCount(dst, `{"success":true,"count":`, answer.Count)
	return append(appendFlag(dst, `,"lease_released":`, answer.LeaseReleased), `,"dlq":false}}`...)
}

func readCycle(fields object) (c broker.Cycle, err error) {
	if c.QueryID, err = fields.needText("query_id"); err != nil {
		return c, err
	}
	if c.PartitionID, err = fields.needText("partition_id"); err != nil {
		return c, err
	}
	group, err := fields.text("consumer_group", false)
	if err != nil {
		return c, err
	}
	if c.Group = broker.QueueMode; group != nil && *group != "" {
		if len(*group) > maxName {
			return c, fmt.Errorf("consumer_group is longer than %d bytes", maxName)
		}
		c.Group = groupName(*group)
	}
	if c.Release, err = fields.flag("release_lease", true); err != nil {
		return c, err
	}
	err = fields.each("state_ops", maxStateOps, func(op object) error {
		read, err := readStateOp(op)
		c.State = append(c.State, read)
		return err
	})
	if err != nil {
		return c, err
	}
	err = fields.each("push_items", maxOperations, func(item object) error {
		if queue := string(item["queue"]); queue == "" || queue == "null" || queue == `""` {
			return nil // the contract skips these
		}
		read, err := readBundleItem(item)
		if err == nil {
			c.Pushes = append(c.Pushes, *read)
		}
		return err
	})
	if err != nil {
		return c, err
	}
	c.Ack, err = readCycleAck(fields["ack"])
	return c, err
}

// each reads an array of objects; null and absent are the empty one.
func (o object) each(name string, limit int, read func(object) error) error {
	raw := o[name]
	if raw == nil || string(raw) == "null" {
		return nil
	}
	items, ok := arrayOf(raw)
	if !ok {
		return fmt.Errorf("%s must be an array", name)
	}
	if len(items) > limit {
		return fmt.Errorf("%s holds %d elements, at most %d are allowed", name, len(items), limit)
	}
	for i, item := range items {
		fields, ok := objectOf(item)
		if !ok {
			return fmt.Errorf("%s[%d] must be an object", name, i)
		}
		if err := read(fields); err != nil {
			return fmt.Errorf("%s[%d].%w", name, i, err)
		}
	}
	return nil
}

func readStateOp(fields object) (op broker.StateOp, err error) {
	kind, err := fields.text("type", true)
	if err != nil {
		return op, err
	}
	key, err := fields.text("key", true)
	if err != nil {
		return op, err
	}
	if op.Key = *key; len(op.Key) > maxStateKey {
		return op, fmt.Errorf("key is longer than %d bytes", maxStateKey)
	}
	switch *kind {
	case "upsert":
		if op.Value = fields["value"]; op.Value == nil {
			return op, errors.New("value is required")
		}
		return op, nil
	case "delete":
		return op, nil
	}
	return op, fmt.Errorf("type is %q, it must be upsert or delete", *kind)
}

func readCycleAck(raw json.RawMessage) (*broker.CycleAck, error) {
	if raw == nil || string(raw) == "null" {
		return nil, nil
	}
	fields, ok := objectOf(raw)
	if !ok {
		return nil, errors.New("ack must be an object or null")
	}
	ack := &broker.CycleAck{OK: true}
	lease, err := fields.text("leaseId", false)
	if err != nil {
		return nil, fmt.Errorf("ack.%w", err)
	}
	if lease != nil {
		ack.Lease = *lease
	}
	status, err := fields.text("status", false)
	if err != nil {
		return nil, fmt.Errorf("ack.%w", err)
	}
	if status != nil {
		ack.OK = ackStatus(*status) == broker.AckCompleted
	}
	if ack.Count, err = fields.number("count", 0, 0, math.MaxInt32); err != nil {
		return nil, fmt.Errorf("ack.%w", err)
	}
	return ack, nil
}
