package api_test

import (
	"time"

	"github.com/google/uuid"

	"waggle/api"
)

// meshed is what the live tests' brokers tell of a mesh that they do not have.
var meshed = api.MeshStatus{
	Enabled: true, Name: "b1", StartID: uuid.NewString(), Address: "10.0.0.1:6633", FrameMin: 1, FrameMax: 2,
	Interest: &api.MeshInterest{Generation: 4, Fill: .25}, In: []api.MeshCount{{Name: "wake", Value: 7}}, Rounds: 1,
	P50: time.Millisecond, P99: time.Millisecond, Unheard: []string{"b3"},
	Peers: []api.MeshPeer{
		{
			Name: "b2", StartID: uuid.NewString(), State: "alive", Since: time.Now(), FrameVersion: 2, Heard: time.Second,
			RTT: time.Millisecond, Interest: &api.MeshInterest{Generation: 9, Held: true},
		},
		{Name: "old", StartID: uuid.NewString(), State: "left", Since: time.Now(), Heard: -1, RTT: -1},
	},
}
