package api

import (
	"context"
	"net/http"

	"go.uber.org/zap"

	"waggle/api/jsonwire"
)

// Maintenance is the switch that keeps every pop of the cluster empty. It is stored, so it outlives every broker.
type Maintenance interface {
	PopMaintenance(ctx context.Context) (bool, error)
	SetPopMaintenance(ctx context.Context, on bool) error
}

const (
	popMaintenanceOn  = "Pop maintenance mode ENABLED. All POP operations will return empty arrays."
	popMaintenanceOff = "Pop maintenance mode is OFF. Normal operation."
	noPushMaintenance = "push maintenance is not supported by this build: pushes are stored in the database at once or fail; " +
		"use /api/v1/system/maintenance/pop to hold consumers back"
)

// showMaintenance is GET /api/v1/system/maintenance. It never fails: a database that does not answer leaves what this
// broker last heard.
func (s *Server) showMaintenance(x *exchange) {
	on, err := s.parts.Maintenance.PopMaintenance(x.r.Context())
	if err != nil {
		s.logger.Warn("pop maintenance not read", zap.String("code", "WG0505"), zap.Error(err))
		on = s.parts.Broker.PopsPaused()
	}
	x.answer(http.StatusOK, func(dst []byte) []byte {
		dst = appendFlag(append(dst, `{"maintenanceMode":false`...), `,"popMaintenanceMode":`, on)
		return append(dst, `,"bufferedMessages":0,"bufferHealthy":true,"bufferStats":{"pendingCount":0,"failedCount":0,`+
			`"dbHealthy":true,"failedFiles":{"count":0,"totalBytes":0,"totalMB":0,"failoverCount":0,"qos0Count":0}}}`...)
	})
}

// setMaintenance is POST /api/v1/system/maintenance, which this build has nowhere to spool pushes for.
func (s *Server) setMaintenance(x *exchange) {
	if _, ok := x.readEnabled(); ok {
		x.fail(http.StatusNotImplemented, noPushMaintenance, "not_implemented")
	}
}

// showPopMaintenance is GET /api/v1/system/maintenance/pop.
func (s *Server) showPopMaintenance(x *exchange) {
	on, err := s.parts.Maintenance.PopMaintenance(x.r.Context())
	if err != nil {
		x.failBroker("maintenance not read", err)
		return
	}
	x.answerPopMaintenance(on)
}

// setPopMaintenance is POST /api/v1/system/maintenance/pop.
func (s *Server) setPopMaintenance(x *exchange) {
	on, ok := x.readEnabled()
	if !ok {
		return
	}
	if err := s.parts.Maintenance.SetPopMaintenance(x.r.Context(), on); err != nil {
		x.failBroker("maintenance not switched", err)
		return
	}
	x.answerPopMaintenance(on)
}

func (x *exchange) answerPopMaintenance(on bool) {
	message := popMaintenanceOff
	if on {
		message = popMaintenanceOn
	}
	x.answer(http.StatusOK, func(dst []byte) []byte {
		dst = appendFlag(dst, `{"popMaintenanceMode":`, on)
		dst = append(dst, `,"message":`...)
		return append(jsonwire.AppendString(dst, message), '}')
	})
}

// readEnabled reads {"enabled":bool}, or answers 400.
func (x *exchange) readEnabled() (enabled, ok bool) {
	b := x.readBody()
	if b == nil {
		return false, false
	}
	defer b.release()
	fields, err := readObject(b.data)
	if err != nil {
		x.fail(http.StatusBadRequest, badBody(err).Error(), "")
		return false, false
	}
	if enabled, ok = fields["enabled"].(bool); !ok {
		x.fail(http.StatusBadRequest, "enabled (boolean) is required", "")
	}
	return enabled, ok
}

// showSharedState is GET /api/v1/system/shared-state: what the compatible broker's replicas share in memory lies in
// the database here.
func (s *Server) showSharedState(x *exchange) {
	x.answer(http.StatusOK, func(dst []byte) []byte {
		return s.appendSwitches(append(dst, `{"enabled":false,"reason":"single_node_segments_broker"`...))
	})
}

// notify is POST /internal/api/notify: a hint from outside that a queue has something.
func (s *Server) notify(x *exchange) {
	b := x.readBody()
	if b == nil {
		return
	}
	fields, err := readObject(b.data)
	b.release()
	if err != nil {
		x.fail(http.StatusBadRequest, badBody(err).Error(), "")
		return
	}
	queue, ok := fields["queue"].(string)
	if !ok {
		x.fail(http.StatusBadRequest, "queue is required and must be a string", "")
		return
	}
	if err := checkName("queue", queue); err != nil {
		x.fail(http.StatusBadRequest, err.Error(), "")
		return
	}
	partition, err := optionalText(fields, "partition")
	if err != nil {
		x.fail(http.StatusBadRequest, err.Error(), "")
		return
	}
	name := ""
	if partition != nil {
		name = *partition
	}
	s.parts.Broker.HandleWake(nil, queue, name)
	x.json(http.StatusOK, []byte(`{"status":"ok"}`))
}
