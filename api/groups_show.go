package api

import (
	"math"
	"net/http"
	"strconv"
	"time"

	"waggle/admin"
	"waggle/api/jsonwire"
	"waggle/broker"
)

// defaultLagging is the age in seconds from which on GET /api/v1/consumer-groups/lagging shows a partition.
const defaultLagging = 3600

// listGroups is GET /api/v1/consumer-groups: a bare array.
func (s *Server) listGroups(x *exchange) {
	groups, err := s.parts.Reads.Groups(x.r.Context(), x.tenant)
	if err != nil {
		x.failBroker("list consumer groups failed", err)
		return
	}
	x.answer(http.StatusOK, func(dst []byte) []byte {
		dst = append(dst, '[')
		for i := range groups {
			if i > 0 {
				dst = append(dst, ',')
			}
			dst = appendGroupSummary(dst, &groups[i])
		}
		return append(dst, ']')
	})
}

func appendGroupSummary(dst []byte, group *admin.Group) []byte {
	dst = append(dst, `{"name":`...)
	dst = jsonwire.AppendString(dst, group.Name)
	dst = append(dst, `,"topics":[`...)
	dst = jsonwire.AppendString(dst, group.Queue)
	dst = append(dst, `],"queueName":`...)
	dst = jsonwire.AppendString(dst, group.Queue)
	dst = appendCount(dst, `,"members":`, group.Cursors)
	dst = appendCount(dst, `,"partitionCursors":`, group.Cursors)
	dst = appendCount(dst, `,"partitionsWithLag":`, group.Behind)
	dst = appendCount(dst, `,"totalLag":`, group.Lag)
	dst = appendCount(dst, `,"maxTimeLag":`, wholeSeconds(group.TimeLag))
	dst = append(dst, `,"state":`...)
	dst = jsonwire.AppendString(dst, string(group.State))
	dst = append(dst, `,"storage":"segments","subscriptionMode":`...)
	dst = appendOptional(dst, group.Mode)
	dst = append(dst, `,"subscriptionTimestamp":`...)
	dst = appendMoment(dst, group.StartAt)
	dst = append(dst, `,"subscriptionCreatedAt":`...)
	dst = appendMoment(dst, group.RegisteredAt)
	dst = append(dst, `,"conflation":`...)
	return append(strconv.AppendBool(dst, group.Conflation), '}')
}

func wholeSeconds(d time.Duration) int64 { return int64(d / time.Second) }

// listLagging is GET /api/v1/consumer-groups/lagging: a bare array with keys in snake case. Who holds a lease and when
// somebody last consumed is not recorded.
func (s *Server) listLagging(x *exchange) {
	behind := min(parseQuery(x.r.URL.RawQuery).looseNumber("minLagSeconds", defaultLagging), math.MaxInt32)
	lagging, err := s.parts.Reads.Lagging(x.r.Context(), x.tenant, time.Duration(behind)*time.Second)
	if err != nil {
		x.failBroker("list lagging partitions failed", err)
		return
	}
	x.answer(http.StatusOK, func(dst []byte) []byte {
		dst = append(dst, '[')
		for i := range lagging {
			if i > 0 {
				dst = append(dst, ',')
			}
			dst = appendLagging(dst, &lagging[i])
		}
		return append(dst, ']')
	})
}

func appendLagging(dst []byte, at *admin.Lagging) []byte {
	dst = append(dst, `{"consumer_group":`...)
	dst = jsonwire.AppendString(dst, at.Group)
	dst = append(dst, `,"queue_name":`...)
	dst = jsonwire.AppendString(dst, at.Queue)
	dst = append(dst, `,"partition_name":`...)
	dst = jsonwire.AppendString(dst, at.Partition)
	dst = append(dst, `,"partition_id":`...)
	dst = jsonwire.AppendUUID(dst, at.PartitionID)
	dst = appendCount(dst, `,"worker_id":null,"offset_lag":`, at.Lag)
	dst = appendCount(dst, `,"time_lag_seconds":`, wholeSeconds(at.TimeLag))
	dst = append(dst, `,"lag_hours":`...)
	dst = strconv.AppendFloat(dst, math.Round(at.TimeLag.Hours()*100)/100, 'f', -1, 64)
	dst = append(dst, `,"oldest_unconsumed_at":`...)
	dst = jsonwire.AppendMillis(dst, at.Oldest)
	return append(dst, `,"last_consumed_at":null}`...)
}

// describeGroup is GET /api/v1/consumer-groups/:group: an object keyed by queue.
func (s *Server) describeGroup(x *exchange) {
	queues, err := s.parts.Reads.Group(x.r.Context(), x.tenant, x.names[0])
	if err != nil {
		x.failBroker("describe consumer group failed", err)
		return
	}
	x.answer(http.StatusOK, func(dst []byte) []byte {
		dst = append(dst, '{')
		for i := range queues {
			if i > 0 {
				dst = append(dst, ',')
			}
			dst = jsonwire.AppendString(dst, queues[i].Queue)
			dst = append(dst, `:{"conflation":`...)
			dst = strconv.AppendBool(dst, queues[i].Conflation)
			dst = append(dst, `,"partitions":[`...)
			for k := range queues[i].Partitions {
				if k > 0 {
					dst = append(dst, ',')
				}
				dst = appendGroupPartition(dst, &queues[i].Partitions[k])
			}
			dst = append(dst, "]}"...)
		}
		return append(dst, '}')
	})
}

func appendGroupPartition(dst []byte, at *admin.GroupPartition) []byte {
	dst = append(dst, `{"partition":`...)
	dst = jsonwire.AppendString(dst, at.Partition)
	dst = appendCount(dst, `,"workerId":null,"lastConsumedAt":null,"totalConsumed":`, at.Consumed)
	dst = appendCount(dst, `,"offsetLag":`, at.Lag)
	dst = appendCount(dst, `,"timeLagSeconds":`, wholeSeconds(at.TimeLag))
	dst = append(dst, `,"leaseActive":`...)
	return append(strconv.AppendBool(dst, at.LeaseActive), '}')
}

// showDepth is GET /api/v1/resources/queues/:queue/depth.
func (s *Server) showDepth(x *exchange) {
	group := parseQuery(x.r.URL.RawQuery).loose("group")
	var depth *admin.Depth
	if name := x.names[0]; checkName("queue", name) == nil { // no other name can exist
		asked := group
		if asked == "" {
			asked = broker.QueueMode
		}
		var err error
		if depth, err = s.parts.Reads.Depth(x.r.Context(), x.tenant, name, asked); err != nil {
			x.failBroker("measure depth failed", err)
			return
		}
	}
	if depth == nil {
		x.fail(http.StatusNotFound, "Queue not found", "")
		return
	}
	x.answer(http.StatusOK, func(dst []byte) []byte { return appendDepth(dst, x.names[0], group, depth) })
}

func appendDepth(dst []byte, queue, group string, depth *admin.Depth) []byte {
	effectivePending, effectiveReady := depth.Pending, depth.Pending-depth.Processing
	if depth.Conflation { // only the newest of each partition will be given out
		effectivePending, effectiveReady = depth.PartitionsPending, depth.PartitionsReady
	}
	dst = append(dst, `{"queue":`...)
	dst = jsonwire.AppendString(dst, queue)
	dst = append(dst, `,"group":`...)
	dst = appendOptional(dst, group)
	dst = appendDepthOf(dst, depth.Pending, depth.Processing)
	dst = appendCount(dst, `,"partitionsPending":`, depth.PartitionsPending)
	dst = appendCount(dst, `,"partitionsReady":`, depth.PartitionsReady)
	dst = append(dst, `,"conflation":`...)
	dst = strconv.AppendBool(dst, depth.Conflation)
	dst = appendCount(dst, `,"effectivePending":`, effectivePending)
	dst = appendCount(dst, `,"effectiveReady":`, effectiveReady)
	dst = append(dst, `,"partitions":[`...)
	for i, partition := range depth.Partitions {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = append(dst, `{"partition":`...)
		dst = jsonwire.AppendString(dst, partition.Partition)
		dst = append(appendDepthOf(dst, partition.Pending, partition.Processing), '}')
	}
	return append(dst, "]}"...)
}

func appendDepthOf(dst []byte, pending, processing int64) []byte {
	dst = appendCount(dst, `,"pending":`, pending)
	dst = appendCount(dst, `,"processing":`, processing)
	return appendCount(dst, `,"ready":`, pending-processing)
}
