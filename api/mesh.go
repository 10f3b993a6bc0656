package api

import (
	"math"
	"net/http"
	"strconv"
	"time"

	"waggle/api/jsonwire"
)

// MeshStatus is the answer of GET /api/v1/cluster/mesh: what this broker and its peers have told each other. Without a
// mesh Enabled is false, and all but Name and StartID is zero.
type MeshStatus struct {
	Enabled  bool
	Name     string
	StartID  string
	Address  string
	FrameMin int
	FrameMax int
	// Interest is this broker's own summary, nil when it has no part in that.
	Interest *MeshInterest
	Peers    []MeshPeer
	// In and Out are frames by kind, Dropped what was dropped by reason.
	In, Out, Dropped []MeshCount
	Gaps             int64
	Fanouts          int64
	Withheld         int64
	Undecryptable    int64
	WrongLabel       int64
	// Rounds is how many rounds of beacons there were, P50 and P99 how long they took.
	Rounds   int64
	P50, P99 time.Duration
	// Unheard are the names of live brokers that are not heard.
	Unheard []string
}

// MeshCount is a number with the label value that the metrics have for it.
type MeshCount struct {
	Name  string
	Value int64
}

// MeshInterest is a summary of the queues whose wakes a broker wants. Age is that of a peer's; Held says that it counts.
type MeshInterest struct {
	Generation uint64
	Fill       float64
	Age        time.Duration
	Held       bool
}

// MeshPeer is one other broker. FrameVersion 0, Heard and RTT below 0, and a nil Interest say that there is none.
type MeshPeer struct {
	Name             string
	StartID          string
	State            string
	Since            time.Time
	Address          string
	FrameVersion     int
	Heard            time.Duration
	RTT              time.Duration
	Queued           int
	In, Out, Dropped []MeshCount
	Gaps             int64
	Interest         *MeshInterest
}

// showMesh is GET /api/v1/cluster/mesh.
func (s *Server) showMesh(x *exchange) {
	mesh := s.parts.Cluster.Mesh()
	x.answer(http.StatusOK, func(dst []byte) []byte {
		dst = appendFlag(dst, `{"enabled":`, mesh.Enabled)
		dst = append(dst, `,"self":{"name":`...)
		dst = jsonwire.AppendString(dst, mesh.Name)
		dst = append(dst, `,"startId":`...)
		dst = jsonwire.AppendString(dst, mesh.StartID)
		dst = append(dst, `,"address":`...)
		dst = jsonwire.AppendString(dst, mesh.Address)
		dst = appendCount(dst, `,"frames":{"min":`, int64(mesh.FrameMin))
		dst = appendCount(dst, `,"max":`, int64(mesh.FrameMax))
		dst = append(dst, `}},"interest":`...)
		if mesh.Interest == nil {
			dst = append(dst, "null"...)
		} else {
			dst = append(appendMeshInterest(dst, mesh.Interest), '}')
		}
		dst = append(dst, `,"peers":[`...)
		for i := range mesh.Peers {
			if i > 0 {
				dst = append(dst, ',')
			}
			dst = appendMeshPeer(dst, &mesh.Peers[i])
		}
		dst = appendMeshCounts(dst, `],"framesIn":{`, mesh.In)
		dst = appendMeshCounts(dst, `,"framesOut":{`, mesh.Out)
		dst = appendMeshCounts(dst, `,"dropped":{`, mesh.Dropped)
		dst = appendCount(dst, `,"gaps":`, mesh.Gaps)
		dst = appendCount(dst, `,"fanouts":`, mesh.Fanouts)
		dst = appendCount(dst, `,"wakesWithheld":`, mesh.Withheld)
		dst = appendCount(dst, `,"undecryptable":`, mesh.Undecryptable)
		dst = appendCount(dst, `,"wrongLabel":`, mesh.WrongLabel)
		dst = appendCount(dst, `,"beacon":{"count":`, mesh.Rounds)
		dst = appendMilliseconds(dst, `,"p50Ms":`, mesh.P50, mesh.Rounds > 0)
		dst = appendMilliseconds(dst, `,"p99Ms":`, mesh.P99, mesh.Rounds > 0)
		dst = append(dst, `},"unheard":`...)
		return append(appendStrings(dst, mesh.Unheard), '}')
	})
}

func appendMeshPeer(dst []byte, p *MeshPeer) []byte {
	for _, field := range [...]struct{ before, text string }{
		{`{"name":`, p.Name},
		{`,"startId":`, p.StartID},
		{`,"state":`, p.State},
		{`,"address":`, p.Address},
	} {
		dst = append(dst, field.before...)
		dst = jsonwire.AppendString(dst, field.text)
	}
	dst = append(dst, `,"since":`...)
	dst = appendMoment(dst, p.Since)
	dst = append(dst, `,"frameVersion":`...)
	if p.FrameVersion == 0 {
		dst = append(dst, "null"...)
	} else {
		dst = strconv.AppendInt(dst, int64(p.FrameVersion), 10)
	}
	dst = appendMilliseconds(dst, `,"lastHeardMs":`, p.Heard, p.Heard >= 0)
	dst = appendMilliseconds(dst, `,"rttMs":`, p.RTT, p.RTT >= 0)
	dst = appendCount(dst, `,"queued":`, int64(p.Queued))
	dst = appendMeshCounts(dst, `,"framesIn":{`, p.In)
	dst = appendMeshCounts(dst, `,"framesOut":{`, p.Out)
	dst = appendMeshCounts(dst, `,"dropped":{`, p.Dropped)
	dst = appendCount(dst, `,"gaps":`, p.Gaps)
	dst = append(dst, `,"interest":`...)
	if p.Interest == nil {
		return append(dst, "null}"...)
	}
	dst = appendMeshInterest(dst, p.Interest)
	dst = appendMilliseconds(dst, `,"ageMs":`, p.Interest.Age, true)
	dst = appendFlag(dst, `,"held":`, p.Interest.Held)
	return append(dst, "}}"...)
}

// appendMeshInterest appends what a broker's own summary and a peer's have in common, and leaves the object open.
func appendMeshInterest(dst []byte, interest *MeshInterest) []byte {
	dst = appendCount(dst, `{"generation":`, int64(interest.Generation))
	dst = append(dst, `,"fill":`...)
	return strconv.AppendFloat(dst, math.Round(interest.Fill*10_000)/10_000, 'f', -1, 64)
}

// appendMeshCounts appends an object that before has opened.
func appendMeshCounts(dst []byte, before string, counts []MeshCount) []byte {
	dst = append(dst, before...)
	for i, count := range counts {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = append(jsonwire.AppendString(dst, count.Name), ':')
		dst = strconv.AppendInt(dst, count.Value, 10)
	}
	return append(dst, '}')
}

// appendMilliseconds appends a duration to the microsecond, or null.
func appendMilliseconds(dst []byte, before string, d time.Duration, known bool) []byte {
	dst = append(dst, before...)
	if !known {
		return append(dst, "null"...)
	}
	return strconv.AppendFloat(dst, float64(d.Microseconds())/1000, 'f', -1, 64)
}
