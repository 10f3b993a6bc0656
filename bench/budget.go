package bench

// Names of sides. Rows name the side that is their value and the side that is their yardstick.
const (
	sideNoStore   = "no-store"
	sidePush1     = "push1"
	sidePush1Wide = "push1wide"
	sideBlobs     = "blobs"
	sidePush100   = "push100"
	sideDrain100  = "drain100"
	sideLive100   = "live100"
	sideLive1     = "live1"
	sideCluster   = "cluster"
	sideUpdate    = "update"
	sideWake      = "wake"
	sidePilot64   = "autopilot64"
	sideFixed64   = "fixed64"
	sidePilot1    = "autopilot1"
	sideFixed1    = "fixed1"
	sidePilot16   = "autopilot16"
	sideFixed16   = "fixed16"
	sideMove      = "move100"
	sideMoveApart = "move100apart"
	sideSparse    = "sparse"
	sideDense     = "sparse-alone"
)

// sideOrder is the order within a round: a yardstick stands right before what it measures.
var sideOrder = []string{
	sideNoStore, sidePush1, sidePush1Wide, sideLive1, sideBlobs, sidePush100, sideDrain100, sideLive100, sideCluster,
	sideFixed64, sidePilot64, sideFixed1, sidePilot1, sideFixed16, sidePilot16, sideMoveApart, sideMove, sideDense, sideSparse, sideUpdate, sideWake,
}

// rowSpec is one line of the budget.
type rowSpec struct {
	name      string
	work      string
	side      string
	yardstick string
	// against says in words what the yardstick is.
	against string
	// budget is the least ratio; the wake row has limits instead.
	budget float64
}

var budget = []rowSpec{
	{
		name: "push1", work: "batch 1, 256 connections, 16 partitions",
		side: sidePush1, yardstick: sideNoStore, against: "the same requests parsed and answered, not stored", budget: 0.55,
	},
	{
		name: "push1wide", work: "batch 1, 256 connections, 1,000 partitions",
		side: sidePush1Wide, yardstick: sideNoStore, against: "the same requests parsed and answered, not stored", budget: 0.40,
	},
	{
		name: "push100", work: "batch 100, 16 connections, 16 partitions",
		side: sidePush100, yardstick: sideBlobs, against: "16 connections inserting ready blobs of 100, one commit each", budget: 0.6,
	},
	{
		name: "drain100", work: "pop and ack of stored records in no cache, 16 consumers, batch 100",
		side: sideDrain100, yardstick: sidePush100, against: "push100", budget: 0.8,
	},
	{
		name: "live100", work: "push100 with 16 consumers, batch 100, keeping up",
		side: sideLive100, yardstick: sidePush100, against: "push100 alone", budget: 0.5,
	},
	{
		name: "live1", work: "push1 with 64 consumers, batch 1, 64 partitions, keeping up",
		side: sideLive1, yardstick: sidePush1, against: "push1 alone", budget: 0.3,
	},
	{
		name: "cluster", work: "push100 with each request on a random broker",
		side: sideCluster, yardstick: sidePush100, against: "push100 on one broker", budget: 0.8,
	},
	{
		name: "autopilot64", work: "4 consumers that leave batch and partitions to the broker, 64 sparse partitions",
		side: sidePilot64, yardstick: sideFixed64, against: "the same with the defaults (200, 1)", budget: 1.3,
	},
	{
		name: "autopilot1", work: "the same, 1 dense partition",
		side: sidePilot1, yardstick: sideFixed1, against: "the same with the defaults (200, 1)", budget: 0.97,
	},
	{
		name: "autopilot16", work: "16 such consumers, 16 dense partitions",
		side: sidePilot16, yardstick: sideFixed16, against: "the same with the defaults (200, 1)", budget: 0.97,
	},
	{
		name: "move100", work: "pop 100, then one transaction that acknowledges them and pushes them on; 16 consumers keeping up",
		side: sideMove, yardstick: sideMoveApart, against: "the same with a push and an ack instead of the transaction", budget: 0.8,
	},
	{
		name: "sparse", work: "batch 100 with 16 consumers keeping up, 1,000 active partitions among --idle-partitions others",
		side: sideSparse, yardstick: sideDense, against: "the same 1,000 alone", budget: 0.8,
	},
	{
		name: "wake", work: "push on one broker to the answer of a pop parked on another, idle",
		side: sideWake, yardstick: sideUpdate, against: "one-row UPDATE and COMMIT: p50 <= 2x + 1 ms, p99 <= 3x + 5 ms",
	},
}

// The limits of the wake row, in milliseconds.
func wakeLimits(updateP50, updateP99 float64) (p50, p99 float64) {
	return 2*updateP50 + 1, 3*updateP99 + 5
}

// Workloads are the rows that each `waggle bench NAME` measures.
var Workloads = map[string][]string{
	"push":   {"push1", "push1wide", "push100"},
	"drain":  {"drain100"},
	"live":   {"live100", "live1"},
	"wake":   {"wake"},
	"budget": {"push1", "push1wide", "push100", "drain100", "live100", "live1", "cluster", "wake"},
	// Not of the budget that brokers are compared by.
	"autopilot":   {"autopilot64", "autopilot1", "autopilot16"},
	"transaction": {"move100"},
	"sparse":      {"sparse"},
}

// RowNames are the rows of the budget, in its order.
func RowNames() []string {
	names := make([]string, len(budget))
	for i, row := range budget {
		names[i] = row.name
	}
	return names
}
