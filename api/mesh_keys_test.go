package api

import (
	"context"
	"errors"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func (d *double) MeshMembers(context.Context) ([]MeshMember, error) { return d.meshMembers, d.err }

func (d *double) MeshKeys(context.Context) (MeshKeys, error) { return d.meshKeys, d.err }

func (d *double) RotateMeshKey(context.Context) (bool, error) { return d.err == nil, d.err }

func (d *double) PingMesh(_ context.Context, name string) (peers []MeshPing) {
	for _, p := range d.pings {
		if name == "" || p.Name == name {
			peers = append(peers, p)
		}
	}
	return peers
}

type refusedRotation struct{ error }

func (refusedRotation) Refused() bool { return true }

const someStart = "0190a8c0-0000-7000-8000-000000000001"

func TestMeshMembers(t *testing.T) {
	t.Parallel()
	f := setup(t, func(f *fixture) { f.settings.ServerID = "b1" })
	f.requireJSON(f.do("GET", "/api/v1/cluster/mesh/members", ""), http.StatusOK, `{"members":[],"self":"b1"}`)
	f.meshMembers = []MeshMember{{
		Name: "b2", StartID: someStart, Address: "10.0.0.2:6633", State: "unheard", Registered: true, Version: "0.1.0",
		Frames: MeshFrames{1, 2}, Keys: MeshHolder{Source: "file", Fingerprint: "ab"}, Hint: "look",
	}}
	f.requireJSON(f.do("GET", "/api/v1/cluster/mesh/members", ""), http.StatusOK, `{"members":[{"name":"b2","startId":"`+someStart+
		`","self":false,"address":"10.0.0.2:6633","state":"unheard","registered":true,"version":"0.1.0","frames":{"min":1,"max":2},`+
		`"keys":{"source":"file","fingerprint":"ab","ring":0,"confirmed":false},"hint":"look"}],"self":"b1"}`)
	f.err = errors.New("gone")
	f.requireJSON(f.do("GET", "/api/v1/cluster/mesh/members", ""), http.StatusInternalServerError, `{"error":"mesh not read"}`)
}

func TestMeshKeysAndTheirRotation(t *testing.T) {
	t.Parallel()
	f := setup(t)
	f.requireJSON(f.do("GET", "/api/v1/cluster/mesh/keys", ""), http.StatusOK,
		`{"ring":0,"keys":[],"rotation":null,"lastRotated":null,"brokers":[]}`)
	at := time.Date(2030, 1, 2, 3, 4, 5, 0, time.UTC)
	f.meshKeys = MeshKeys{
		Ring: 3, Keys: []MeshKey{{"ab", true}, {"cd", false}}, Rotation: &MeshRotation{Step: "use", StepSince: at, RequestedBy: "b1", RequestedAt: at},
		LastRotated: &at, Brokers: []MeshKeyBroker{{"b1", someStart, MeshHolder{"database", "ab", 3, true}}},
	}
	f.requireJSON(f.do("GET", "/api/v1/cluster/mesh/keys", ""), http.StatusOK, `{"ring":3,"keys":[{"fingerprint":"ab","primary":true},`+
		`{"fingerprint":"cd","primary":false}],"rotation":{"step":"use","stepSince":"2030-01-02T03:04:05Z","requestedBy":"b1",`+
		`"requestedAt":"2030-01-02T03:04:05Z","waitingFor":[]},"lastRotated":"2030-01-02T03:04:05Z","brokers":[{"name":"b1","startId":"`+
		someStart+`","source":"database","fingerprint":"ab","ring":3,"confirmed":true}]}`)
	f.requireJSON(f.do("POST", "/api/v1/cluster/mesh/keys/rotate", ""), http.StatusAccepted, `{"started":true}`)
	f.err = refusedRotation{errors.New("b2: its keys come from a file")}
	f.requireJSON(f.do("POST", "/api/v1/cluster/mesh/keys/rotate", ""), http.StatusConflict,
		`{"error":"b2: its keys come from a file","code":"rotation_refused"}`)
	f.err = errors.New("gone")
	f.requireJSON(f.do("POST", "/api/v1/cluster/mesh/keys/rotate", ""), http.StatusInternalServerError, `{"error":"mesh not read"}`)
}

func TestMeshPing(t *testing.T) {
	t.Parallel()
	f := setup(t, func(f *fixture) { f.settings.ServerID = "b1" })
	f.requireJSON(f.do("GET", "/api/v1/cluster/mesh/ping", ""), http.StatusOK, `{"from":"b1","peers":[]}`)
	took := 0.25
	f.pings = []MeshPing{
		{Name: "b2", StartID: someStart, Address: "a", State: "alive", Milliseconds: &took},
		{Name: "b 3", StartID: someStart, State: "suspect", Error: "no answer"},
	}
	f.requireJSON(f.do("GET", "/api/v1/cluster/mesh/ping?name=b2", ""), http.StatusOK, `{"from":"b1","peers":[{"name":"b2","startId":"`+
		someStart+`","address":"a","state":"alive","milliseconds":0.25,"error":""}]}`)
	f.requireJSON(f.do("GET", "/api/v1/cluster/mesh/ping?name=b+3", ""), http.StatusOK, `{"from":"b1","peers":[{"name":"b 3","startId":"`+
		someStart+`","address":"","state":"suspect","milliseconds":null,"error":"no answer"}]}`)
	require.Equal(t, http.StatusNotFound, f.do("GET", "/api/v1/cluster/mesh/ping?name=b4", "").Code)
}
