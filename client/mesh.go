package client

import (
	"context"
	"net/http"
	"net/url"
	"time"
)

// MeshMember is a broker as the asked one and the registry see it.
type MeshMember struct {
	Name    string `json:"name"`
	StartID string `json:"startId"`
	Self    bool   `json:"self"`
	Address string `json:"address"`
	// State is alive, suspect, left, dead, unheard (only in the registry) or off (without a mesh).
	State      string `json:"state"`
	Registered bool   `json:"registered"`
	Version    string `json:"version"`
	Frames     struct {
		Min int `json:"min"`
		Max int `json:"max"`
	} `json:"frames"`
	Keys MeshHolder `json:"keys"`
	Hint string     `json:"hint"`
}

// MeshHolder is what a broker said of its mesh keys.
type MeshHolder struct {
	// Source is database, file, off or unknown.
	Source      string `json:"source"`
	Fingerprint string `json:"fingerprint"`
	Ring        int64  `json:"ring"`
	Confirmed   bool   `json:"confirmed"`
}

// MeshMembers asks one broker whom it sees.
func (c *Client) MeshMembers(ctx context.Context) (self string, members []MeshMember, err error) {
	var got struct {
		Self    string       `json:"self"`
		Members []MeshMember `json:"members"`
	}
	_, err = c.doJSON(ctx, call{method: http.MethodGet, path: "/api/v1/cluster/mesh/members"}, &got)
	return got.Self, got.Members, err
}

// MeshKeys is the keyring of the mesh by its fingerprints, and who has confirmed it.
type MeshKeys struct {
	Ring int64 `json:"ring"`
	Keys []struct {
		Fingerprint string `json:"fingerprint"`
		Primary     bool   `json:"primary"`
	} `json:"keys"`
	// Rotation is nil while there is none.
	Rotation    *MeshRotation `json:"rotation"`
	LastRotated *time.Time    `json:"lastRotated"`
	Brokers     []struct {
		Name    string `json:"name"`
		StartID string `json:"startId"`
		MeshHolder
	} `json:"brokers"`
}

// MeshRotation is where a rotation of the mesh key stands.
type MeshRotation struct {
	// Step is requested, install, use or remove.
	Step        string    `json:"step"`
	StepSince   time.Time `json:"stepSince"`
	RequestedBy string    `json:"requestedBy"`
	RequestedAt time.Time `json:"requestedAt"`
	WaitingFor  []struct {
		Name    string `json:"name"`
		StartID string `json:"startId"`
		Reason  string `json:"reason"`
	} `json:"waitingFor"`
}

// MeshKeys asks for the keys of the mesh. Every broker gives the same answer.
func (c *Client) MeshKeys(ctx context.Context) (MeshKeys, error) {
	var got MeshKeys
	_, err := c.doJSON(ctx, call{method: http.MethodGet, path: "/api/v1/cluster/mesh/keys"}, &got)
	return got, err
}

// RotateMeshKey asks for a new mesh key; started is false when a rotation had begun before, which may have been by this
// very call before a fail-over. The error is an *Error with status 409 when a broker has its keys from elsewhere.
func (c *Client) RotateMeshKey(ctx context.Context) (started bool, err error) {
	var got struct {
		Started bool `json:"started"`
	}
	_, err = c.doJSON(ctx, call{method: http.MethodPost, path: "/api/v1/cluster/mesh/keys/rotate"}, &got)
	return got.Started, err
}

// MeshPing is one way over the mesh and back.
type MeshPing struct {
	Name    string `json:"name"`
	StartID string `json:"startId"`
	Address string `json:"address"`
	State   string `json:"state"`
	// Milliseconds is nil without an answer; Error says why there was none.
	Milliseconds *float64 `json:"milliseconds"`
	Error        string   `json:"error"`
}

// PingMesh lets one broker, whose name is from, ping the broker of a name, or all others when it is empty.
func (c *Client) PingMesh(ctx context.Context, name string) (from string, peers []MeshPing, err error) {
	path := "/api/v1/cluster/mesh/ping"
	if name != "" {
		path += "?name=" + url.QueryEscape(name)
	}
	var got struct {
		From  string     `json:"from"`
		Peers []MeshPing `json:"peers"`
	}
	_, err = c.doJSON(ctx, call{method: http.MethodGet, path: path}, &got)
	return got.From, got.Peers, err
}
