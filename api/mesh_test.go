package api

import (
	"net/http"
	"testing"
	"time"
)

func TestMeshStatus(t *testing.T) {
	t.Parallel()
	f := setup(t)
	const first, second = "019a7c10-0000-7000-8000-0000000000b1", "019a7c10-0000-7000-8000-0000000000b2"
	t.Run("without a mesh", func(t *testing.T) {
		f.mesh = MeshStatus{Name: "b1", StartID: first}
		f.requireJSON(f.do("GET", "/api/v1/cluster/mesh", ""), http.StatusOK, `{"enabled":false,`+
			`"self":{"name":"b1","startId":"`+first+`","address":"","frames":{"min":0,"max":0}},"interest":null,"peers":[],`+
			`"framesIn":{},"framesOut":{},"dropped":{},"gaps":0,"fanouts":0,"wakesWithheld":0,"undecryptable":0,"wrongLabel":0,`+
			`"beacon":{"count":0,"p50Ms":null,"p99Ms":null},"unheard":[]}`)
	})
	t.Run("with peers", func(t *testing.T) {
		f.mesh = MeshStatus{
			Enabled: true, Name: "b1", StartID: first, Address: "10.0.0.1:6633", FrameMin: 1, FrameMax: 2,
			Interest: &MeshInterest{Generation: 4, Fill: .25},
			In:       []MeshCount{{"wake", 7}, {"leader_hint", 0}}, Out: []MeshCount{{"wake", 8}},
			Dropped: []MeshCount{{"inbox_full", 1}}, Gaps: 2, Fanouts: 3, Withheld: 4, Undecryptable: 5, WrongLabel: 6,
			Rounds: 100, P50: 1500 * time.Microsecond, P99: time.Second, Unheard: []string{"b3"},
			Peers: []MeshPeer{
				{
					Name: "b2", StartID: second, State: "alive", Since: created, Address: "10.0.0.2:6633", FrameVersion: 2,
					Heard: 250 * time.Millisecond, RTT: 412 * time.Microsecond, Queued: 3, In: []MeshCount{{"wake", 1}},
					Out: []MeshCount{{"wake", 2}}, Dropped: []MeshCount{{"send_failed", 3}}, Gaps: 1,
					Interest: &MeshInterest{Generation: 9, Fill: .5, Age: 2 * time.Second, Held: true},
				},
				{Name: "old", StartID: first, State: "left", Since: created, Heard: -1, RTT: -1},
			},
		}
		f.requireJSON(f.do("GET", "/api/v1/cluster/mesh", ""), http.StatusOK, `{"enabled":true,`+
			`"self":{"name":"b1","startId":"`+first+`","address":"10.0.0.1:6633","frames":{"min":1,"max":2}},`+
			`"interest":{"generation":4,"fill":0.25},"peers":[`+
			`{"name":"b2","startId":"`+second+`","state":"alive","address":"10.0.0.2:6633","since":"2031-04-05T06:07:08.123Z",`+
			`"frameVersion":2,"lastHeardMs":250,"rttMs":0.412,"queued":3,"framesIn":{"wake":1},"framesOut":{"wake":2},`+
			`"dropped":{"send_failed":3},"gaps":1,"interest":{"generation":9,"fill":0.5,"ageMs":2000,"held":true}},`+
			`{"name":"old","startId":"`+first+`","state":"left","address":"","since":"2031-04-05T06:07:08.123Z","frameVersion":null,`+
			`"lastHeardMs":null,"rttMs":null,"queued":0,"framesIn":{},"framesOut":{},"dropped":{},"gaps":0,"interest":null}],`+
			`"framesIn":{"wake":7,"leader_hint":0},"framesOut":{"wake":8},"dropped":{"inbox_full":1},"gaps":2,"fanouts":3,`+
			`"wakesWithheld":4,"undecryptable":5,"wrongLabel":6,"beacon":{"count":100,"p50Ms":1.5,"p99Ms":1000},"unheard":["b3"]}`)
	})
}
