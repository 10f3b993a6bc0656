package api

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"

	"go.uber.org/zap"

	"waggle/api/jsonwire"
	"waggle/broker"
)

// configure is POST /api/v1/configure.
func (s *Server) configure(x *exchange) {
	b := x.readBody()
	if b == nil {
		return
	}
	request, err := readConfigure(b.data)
	b.release()
	if err != nil {
		x.fail(http.StatusBadRequest, err.Error(), "")
		return
	}
	request.Tenant = x.tenant
	answer, err := s.parts.Broker.Configure(x.r.Context(), request)
	if err != nil {
		s.failConfigure(x, err)
		return
	}
	options, err := json.Marshal(answer.Options)
	if err != nil {
		s.failConfigure(x, fmt.Errorf("encode options: %w", err))
		return
	}
	x.answer(http.StatusOK, func(dst []byte) []byte {
		dst = append(dst, `{"configured":true,"queueId":`...)
		dst = jsonwire.AppendUUID(dst, answer.QueueID)
		dst = append(dst, `,"partitionId":null,"queue":`...)
		dst = jsonwire.AppendString(dst, request.Queue)
		dst = append(dst, `,"namespace":`...)
		dst = jsonwire.AppendString(dst, answer.Namespace)
		dst = append(dst, `,"task":`...)
		dst = jsonwire.AppendString(dst, answer.Task)
		dst = append(dst, `,"storage":"segments","options":`...)
		dst = append(dst, options...)
		dst = append(dst, `,"optionsVersion":`...)
		dst = strconv.AppendInt(dst, answer.OptionsVersion, 10)
		dst = append(dst, `,"ignored":`...)
		dst = appendStrings(dst, answer.Ignored)
		return append(dst, '}')
	})
}

func (s *Server) failConfigure(x *exchange, err error) {
	var invalid *broker.InvalidOptionError
	var notKnown *broker.OptionNotKnownError
	switch {
	case errors.As(err, &invalid):
		x.answer(http.StatusBadRequest, func(dst []byte) []byte {
			dst = append(dst, `{"error":`...)
			dst = jsonwire.AppendString(dst, invalid.Error())
			dst = append(dst, `,"invalid":`...)
			dst = appendStrings(dst, invalid.Invalid)
			return append(dst, '}')
		})
	case errors.As(err, &notKnown):
		x.answer(http.StatusConflict, func(dst []byte) []byte {
			dst = append(dst, `{"error":`...)
			dst = jsonwire.AppendString(dst, notKnown.Error())
			dst = append(dst, `,"code":"option_not_known","options":`...)
			dst = appendStrings(dst, notKnown.Options)
			dst = append(dst, `,"brokers":`...)
			dst = appendStrings(dst, notKnown.Brokers)
			return append(dst, '}')
		})
	case errors.Is(err, broker.ErrVersionConflict):
		x.fail(http.StatusConflict, err.Error(), "version_conflict")
	default:
		s.logger.Warn("configure failed", zap.String("code", "WG0507"), zap.String("request_id", x.requestID()), zap.Error(err))
		text := "configure failed: " + err.Error()
		if unavailable(err) {
			text = "pool"
		}
		x.fail(http.StatusInternalServerError, text, "")
	}
}

func appendStrings(dst []byte, texts []string) []byte {
	dst = append(dst, '[')
	for i, text := range texts {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = jsonwire.AppendString(dst, text)
	}
	return append(dst, ']')
}

// readConfigure reads the body. Options may stand in "options" or beside it; the former win. Its errors are texts for
// the client.
func readConfigure(data []byte) (request broker.ConfigureRequest, err error) {
	fields, err := readObject(data)
	if err != nil {
		return request, badBody(err)
	}
	queue, ok := fields["queue"].(string)
	if !ok {
		return request, errors.New("queue is required and must be a string")
	}
	if err := checkName("queue", queue); err != nil {
		return request, err
	}
	request.Queue = queue
	if request.Namespace, err = optionalText(fields, "namespace"); err != nil {
		return request, err
	}
	if request.Task, err = optionalText(fields, "task"); err != nil {
		return request, err
	}
	switch mode := fields["mode"]; mode {
	case nil, "merge":
	case "replace":
		request.Replace = true
	default:
		return request, errors.New("mode must be merge or replace")
	}
	if version := fields["ifVersion"]; version != nil {
		n, ok := version.(int64)
		if !ok || n < 1 {
			return request, errors.New("ifVersion must be a positive integer")
		}
		request.IfVersion = n
	}
	options, ok := fields["options"].(map[string]any)
	if !ok && fields["options"] != nil {
		return request, errors.New("options must be an object")
	}
	for _, name := range [...]string{"queue", "namespace", "task", "mode", "ifVersion", "options"} {
		delete(fields, name)
	}
	for name, value := range options {
		fields[name] = value
	}
	request.Options = fields
	return request, liftNames(&request)
}

// liftNames moves namespace and task out of the options, where they may stand too. As an option, null means the
// default, which is empty; at the top level it means nothing.
func liftNames(request *broker.ConfigureRequest) error {
	for name, target := range map[string]**string{"namespace": &request.Namespace, "task": &request.Task} {
		value, sent := request.Options[name]
		if !sent {
			continue
		}
		text, err := optionalText(request.Options, name)
		if err != nil {
			return err
		}
		if value == nil {
			text = new(string)
		}
		*target = text
		delete(request.Options, name)
	}
	return nil
}

func optionalText(fields map[string]any, name string) (*string, error) {
	switch value := fields[name].(type) {
	case nil:
		return nil, nil
	case string:
		if err := checkName(name, value); err != nil {
			return nil, err
		}
		return &value, nil
	}
	return nil, fmt.Errorf("%s must be a string", name)
}

// readObject builds the values of an object: int64 for whole numbers that fit, float64 for others, and what
// encoding/json makes of the rest. The scanner goes first because it is the stricter one.
func readObject(data []byte) (map[string]any, error) {
	var scanner jsonwire.Scanner
	scanner.Reset(data)
	fields := map[string]any{}
	scanner.BeginObject()
	for key, ok := scanner.NextKey(); ok; key, ok = scanner.NextKey() {
		name := string(key)
		value, err := readValue(&scanner)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		fields[name] = value
	}
	return fields, scanner.End()
}

func readValue(scanner *jsonwire.Scanner) (any, error) {
	if scanner.Peek() == '{' {
		fields := map[string]any{}
		scanner.BeginObject()
		for key, ok := scanner.NextKey(); ok; key, ok = scanner.NextKey() {
			name := string(key)
			value, err := readScalar(scanner.Raw())
			if err != nil {
				return nil, fmt.Errorf("%s: %w", name, err)
			}
			fields[name] = value
		}
		return fields, scanner.Err()
	}
	return readScalar(scanner.Raw())
}

func readScalar(raw []byte) (value any, err error) {
	if raw == nil {
		return nil, nil // the scanner holds the error
	}
	if n, err := strconv.ParseInt(string(raw), 10, 64); err == nil {
		return n, nil
	}
	if err := json.Unmarshal(raw, &value); err != nil {
		return nil, err
	}
	return value, nil
}
