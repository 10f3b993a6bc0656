package api

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"time"
)

// Mesh is what operators ask of the gossip between brokers, and tell it.
type Mesh interface {
	// MeshMembers are the brokers that this one sees, and those that only the registry knows.
	MeshMembers(ctx context.Context) ([]MeshMember, error)
	MeshKeys(ctx context.Context) (MeshKeys, error)
	// RotateMeshKey asks for a new mesh key; started is false when a rotation is under way already. An error with a method
	// Refused() bool that answers true is for the client to read.
	RotateMeshKey(ctx context.Context) (started bool, err error)
	// PingMesh measures the way to the peer of that name and back, or to all of them; none without a mesh.
	PingMesh(ctx context.Context, name string) []MeshPing
}

// MeshMember is a broker as this one and the registry see it. The JSON names are the contract of the route.
type MeshMember struct {
	Name    string `json:"name"`
	StartID string `json:"startId"`
	Self    bool   `json:"self"`
	// Address is empty for a broker without a mesh.
	Address string `json:"address"`
	// State is alive, suspect, left or dead; unheard for a broker that only the registry knows; off for one without a mesh.
	State      string     `json:"state"`
	Registered bool       `json:"registered"`
	Version    string     `json:"version"`
	Frames     MeshFrames `json:"frames"`
	Keys       MeshHolder `json:"keys"`
	// Hint says what an operator might look at; empty when all is well.
	Hint string `json:"hint"`
}

// MeshFrames is a range of frame versions.
type MeshFrames struct {
	Min int `json:"min"`
	Max int `json:"max"`
}

// MeshHolder is what a broker said of its keys. Source is database, file, off, or unknown for builds that do not say.
type MeshHolder struct {
	Source      string `json:"source"`
	Fingerprint string `json:"fingerprint"`
	Ring        int64  `json:"ring"`
	// Confirmed says that it works with the database's ring as it is now.
	Confirmed bool `json:"confirmed"`
}

// MeshKeys is the keyring, without any key.
type MeshKeys struct {
	// Ring is the number of the database's keyring.
	Ring int64     `json:"ring"`
	Keys []MeshKey `json:"keys"`
	// Rotation is nil while there is none.
	Rotation    *MeshRotation   `json:"rotation"`
	LastRotated *time.Time      `json:"lastRotated"`
	Brokers     []MeshKeyBroker `json:"brokers"`
}

// MeshKey is one key of the ring.
type MeshKey struct {
	Fingerprint string `json:"fingerprint"`
	Primary     bool   `json:"primary"`
}

// MeshRotation is where a rotation stands: requested, install, use or remove.
type MeshRotation struct {
	Step        string    `json:"step"`
	StepSince   time.Time `json:"stepSince"`
	RequestedBy string    `json:"requestedBy"`
	RequestedAt time.Time `json:"requestedAt"`
	// WaitingFor are the brokers that have not confirmed the step.
	WaitingFor []MeshLacking `json:"waitingFor"`
}

// MeshLacking is a broker that holds a rotation up, and why.
type MeshLacking struct {
	Name    string `json:"name"`
	StartID string `json:"startId"`
	Reason  string `json:"reason"`
}

// MeshKeyBroker is a live broker and its keys.
type MeshKeyBroker struct {
	Name    string `json:"name"`
	StartID string `json:"startId"`
	MeshHolder
}

// MeshPing is one measurement. Milliseconds is nil when there was no answer; Error says why.
type MeshPing struct {
	Name         string   `json:"name"`
	StartID      string   `json:"startId"`
	Address      string   `json:"address"`
	State        string   `json:"state"`
	Milliseconds *float64 `json:"milliseconds"`
	Error        string   `json:"error"`
}

// listMeshMembers is GET /api/v1/cluster/mesh/members.
func (s *Server) listMeshMembers(x *exchange) {
	members, err := s.parts.Mesh.MeshMembers(x.r.Context())
	x.show(http.StatusOK, map[string]any{"self": s.settings.ServerID, "members": orEmpty(members)}, err)
}

// showMeshKeys is GET /api/v1/cluster/mesh/keys.
func (s *Server) showMeshKeys(x *exchange) {
	keys, err := s.parts.Mesh.MeshKeys(x.r.Context())
	keys.Keys, keys.Brokers = orEmpty(keys.Keys), orEmpty(keys.Brokers)
	if keys.Rotation != nil {
		keys.Rotation.WaitingFor = orEmpty(keys.Rotation.WaitingFor)
	}
	x.show(http.StatusOK, keys, err)
}

// rotateMeshKey is POST /api/v1/cluster/mesh/keys/rotate. The leader does the work; the body is not read.
func (s *Server) rotateMeshKey(x *exchange) {
	started, err := s.parts.Mesh.RotateMeshKey(x.r.Context())
	var refused interface{ Refused() bool }
	if errors.As(err, &refused) && refused.Refused() {
		x.fail(http.StatusConflict, err.Error(), "rotation_refused")
		return
	}
	x.show(http.StatusAccepted, map[string]any{"started": started}, err)
}

// pingMesh is GET /api/v1/cluster/mesh/ping.
func (s *Server) pingMesh(x *exchange) {
	name := parseQuery(x.r.URL.RawQuery).loose("name")
	if err := checkName("name", name); err != nil {
		x.fail(http.StatusBadRequest, err.Error(), "")
		return
	}
	peers := s.parts.Mesh.PingMesh(x.r.Context(), name)
	if name != "" && len(peers) == 0 {
		x.fail(http.StatusNotFound, "no other broker is called "+name+", as far as this one sees", "")
		return
	}
	x.show(http.StatusOK, map[string]any{"from": s.settings.ServerID, "peers": orEmpty(peers)}, nil)
}

// show answers with a value as JSON, or the error of reading it.
func (x *exchange) show(status int, value any, err error) {
	var content []byte
	if err == nil {
		content, err = json.Marshal(value)
	}
	if err != nil {
		x.failBroker("mesh not read", err)
		return
	}
	x.json(status, content)
}

func orEmpty[T any](list []T) []T {
	if list == nil {
		return []T{}
	}
	return list
}
