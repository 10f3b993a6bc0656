package api

import (
	"errors"
	"net/http"
	"time"

	"go.uber.org/zap"

	"waggle/api/jsonwire"
	"waggle/broker"
)

// The three forms of a pop.
func (s *Server) popPinned(x *exchange) {
	s.pop(x, broker.PopRequest{Queue: x.names[0], Partition: x.names[1], Pinned: true})
}

func (s *Server) popQueue(x *exchange) { s.pop(x, broker.PopRequest{Queue: x.names[0]}) }

func (s *Server) popDiscovery(x *exchange) { s.pop(x, broker.PopRequest{Discovery: true}) }

const (
	defaultBatch      = 200
	defaultPartitions = 1
)

func (s *Server) pop(x *exchange, request broker.PopRequest) {
	request.Tenant = x.tenant
	refusal, err := s.readPop(x, &request)
	switch {
	case err != nil:
		x.text(http.StatusBadRequest, "Failed to deserialize query string: "+err.Error())
		return
	case refusal != "":
		x.answer(http.StatusBadRequest, func(dst []byte) []byte {
			dst = append(dst, `{"success":false,"error":`...)
			dst = jsonwire.AppendString(dst, refusal)
			return append(dst, `,"messages":[]}`...)
		})
		return
	}
	answer, err := s.parts.Broker.Pop(x.r.Context(), request)
	if answer != nil {
		defer answer.Release()
	}
	switch {
	case x.clientGone():
		if answer != nil {
			s.parts.Broker.GiveBack(answer)
		}
		x.noContent()
		x.status = statusClientGone
	case err != nil:
		x.failBroker("pop failed", err)
	case answer == nil || len(answer.Parts) == 0 && !answer.Conflation:
		x.noContent()
	case answer.Paused:
		x.answer(http.StatusOK, func(dst []byte) []byte {
			return append(dst, `{"messages":[],"paused":true,"conflation":true}`...)
		})
	default:
		x.writePop(&request, answer)
	}
}

// readPop fills request from the query string. err is about a parameter that does not parse, refusal about a request
// that cannot be.
func (s *Server) readPop(x *exchange, request *broker.PopRequest) (refusal string, err error) {
	parameters := typed{query: parseQuery(x.r.URL.RawQuery)}
	request.Batch = parameters.number("batch", defaultBatch)
	request.Partitions = parameters.number("partitions", defaultPartitions)
	request.Wait = parameters.flag("wait")
	request.Timeout = time.Duration(max(0, parameters.number("timeout", int(s.settings.PopTimeout.Milliseconds())))) * time.Millisecond
	request.AutoAck = parameters.flag("autoAck")
	request.LeaseSeconds = max(0, parameters.number("leaseSeconds", 0))
	request.Group = groupName(parameters.text("consumerGroup"))
	request.SubscriptionMode = parameters.text("subscriptionMode")
	request.SubscriptionFrom = parameters.text("subscriptionFrom")
	namespace, task := parameters.optional("namespace"), parameters.optional("task")
	request.BatchDefault, request.PartitionsDefault = parameters.absent("batch"), parameters.absent("partitions")
	request.Conflation = parameters.optionalFlag("conflation")
	request.Autopilot = parameters.flag("autopilot")
	if parameters.err != nil {
		return "", parameters.err
	}
	if request.Group == broker.QueueMode {
		request.Group = ""
	}
	// The order of the refusals is the contract's.
	if refusal := refuseConflation(request); refusal != "" {
		return refusal, nil
	}
	if request.Discovery {
		if request.Namespace, request.Task = namespace, task; namespace == nil && task == nil {
			return "namespace or task is required", nil
		}
	}
	err = errors.Join(checkName("queue", request.Queue), checkName("partition", request.Partition))
	if request.Discovery {
		err = errors.Join(checkOptional("namespace", namespace), checkOptional("task", task))
	}
	if err == nil {
		err = checkGroup(request.Group)
	}
	if err != nil {
		return err.Error(), nil
	}
	return "", nil
}

// refuseConflation says why a pop cannot conflate, nothing if it can or does not ask to.
func refuseConflation(request *broker.PopRequest) string {
	switch {
	case request.Conflation == nil || !*request.Conflation:
		return ""
	case request.Group == "":
		return "conflation requires consumerGroup: it is a property of a queue and a group"
	case request.AutoAck:
		return "conflation cannot be combined with autoAck"
	}
	return ""
}

// failBroker answers an error of the data plane in the words of the contract and logs what it was. An error that has words
// of its own for clients has been logged where it arose, as often as an operator wants to read it.
func (x *exchange) failBroker(text string, err error) {
	var explained interface{ ClientText() string }
	if errors.As(err, &explained) {
		x.fail(http.StatusInternalServerError, explained.ClientText(), "")
		return
	}
	x.server.logger.Warn(text, zap.String("code", "WG0508"), zap.String("route", x.pattern), zap.String("request_id", x.requestID()), zap.Error(err))
	if unavailable(err) {
		text = "pool"
	}
	x.fail(http.StatusInternalServerError, text, "")
}

// unavailable says whether err means that no connection to the database could be had.
func unavailable(err error) bool {
	var reason interface{ Unavailable() bool }
	return errors.As(err, &reason) && reason.Unavailable()
}
