package api

import (
	"net/http"

	"waggle/api/jsonwire"
)

// showCluster is GET /api/v1/cluster.
func (s *Server) showCluster(x *exchange) {
	view, err := s.parts.Cluster.View(x.r.Context())
	if err != nil {
		x.failBroker("cluster view failed", err)
		return
	}
	x.answer(http.StatusOK, func(dst []byte) []byte {
		dst = append(dst, `{"self":`...)
		dst = jsonwire.AppendString(dst, view.Self)
		dst = append(dst, `,"clusterId":`...)
		dst = jsonwire.AppendString(dst, view.ClusterID)
		dst = append(dst, `,"members":[`...)
		for i := range view.Members {
			if i > 0 {
				dst = append(dst, ',')
			}
			dst = appendMember(dst, &view.Members[i])
		}
		dst = append(dst, `],"leader":`...)
		if view.Leader == nil {
			dst = append(dst, "null"...)
		} else {
			dst = append(dst, `{"name":`...)
			dst = jsonwire.AppendString(dst, view.Leader.Name)
			dst = appendCount(dst, `,"epoch":`, view.Leader.Epoch)
			dst = append(dst, '}')
		}
		dst = appendCount(dst, `,"registered":`, int64(view.Registered))
		return append(dst, '}')
	})
}

func appendMember(dst []byte, m *Member) []byte {
	for _, field := range [...]struct{ before, text string }{
		{`{"name":`, m.Name},
		{`,"startId":`, m.StartID},
		{`,"state":`, m.State},
		{`,"version":`, m.Version},
		{`,"http":`, m.HTTP},
	} {
		dst = append(dst, field.before...)
		dst = jsonwire.AppendString(dst, field.text)
	}
	dst = appendCount(dst, `,"frames":{"min":`, int64(m.FrameMin))
	dst = appendCount(dst, `,"max":`, int64(m.FrameMax))
	dst = appendCount(dst, `},"schema":{"knows":`, int64(m.SchemaKnows))
	dst = appendCount(dst, `,"needs":`, int64(m.SchemaNeeds))
	dst = appendFlag(dst, `},"leader":`, m.Leader)
	dst = appendFlag(dst, `,"draining":`, m.Draining)
	return append(dst, '}')
}

// showExchange is GET /internal/api/shared-state/stats and /internal/api/inter-instance/stats. sequence_rejections and
// eph_members are 0: frames carry numbers so that losses are noticed, none is refused for its number; and there are no
// ephemeral queues.
func (s *Server) showExchange(x *exchange) {
	stats := s.parts.Cluster.Exchange()
	x.answer(http.StatusOK, func(dst []byte) []byte {
		dst = append(dst, `{"server_id":`...)
		dst = jsonwire.AppendString(dst, s.settings.ServerID)
		if stats == nil {
			dst = append(dst, `,"enabled":false,"running":false,"reason":"no_peers","peer_count":0,"peers":[]`...)
			return s.appendSwitches(dst)
		}
		dst = appendCount(dst, `,"transport":"tcp-mesh","port":`, int64(stats.Port))
		dst = appendCount(dst, `,"peer_count":`, int64(len(stats.Peers)))
		dst = append(dst, `,"peers":`...)
		dst = appendStrings(dst, stats.Peers)
		dst = appendCount(dst, `,"servers_alive":`, int64(stats.Alive))
		dst = appendCount(dst, `,"servers_dead":`, int64(stats.Dead))
		dst = appendCount(dst, `,"eph_members":0,"messages_sent":`, stats.Sent)
		dst = appendCount(dst, `,"messages_received":`, stats.Received)
		dst = appendCount(dst, `,"messages_dropped":`, stats.Dropped)
		dst = appendCount(dst, `,"signature_failures":`, stats.BadSignatures)
		dst = appendCount(dst, `,"handshake_failures":`, stats.BadHandshakes)
		dst = append(dst, `,"sequence_rejections":0,"enabled":true,"running":true`...)
		return s.appendSwitches(dst)
	})
}

// appendSwitches ends an answer with the switches of the cluster.
func (s *Server) appendSwitches(dst []byte) []byte {
	return append(appendFlag(dst, `,"maintenance_mode":false,"pop_maintenance_mode":`, s.parts.Broker.PopsPaused()), '}')
}
