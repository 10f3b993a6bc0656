package bench

import "fmt"

const (
	consumersPilot = 4
	// backlogSparse leaves each of the 64 partitions two messages, in the mean.
	backlogSparse = 2 * partitionsLive
	groupPilot    = "pilot"

	askFixed = "consumerGroup=" + groupPilot
	askPilot = askFixed + "&autopilot=true"
)

func askBatch(batch int) string { return fmt.Sprintf("batch=%d", batch) }

// pilotShapes are the sides with and without the autopilot: the pops name neither batch nor partitions.
var pilotShapes = map[string]liveShape{
	sideFixed64: pilotShape(64, 1, partitionsLive, consumersPilot, backlogSparse, askFixed),
	sidePilot64: pilotShape(64, 1, partitionsLive, consumersPilot, backlogSparse, askPilot),
	sideFixed1:  pilotShape(connections100, batch100, 1, consumersPilot, backlog100, askFixed),
	sidePilot1:  pilotShape(connections100, batch100, 1, consumersPilot, backlog100, askPilot),
	sideFixed16: pilotShape(connections100, batch100, partitions, consumers100, backlog100, askFixed),
	sidePilot16: pilotShape(connections100, batch100, partitions, consumers100, backlog100, askPilot),
}

func pilotShape(connections, batch, partitions, consumers int, backlog int64, ask string) liveShape {
	return liveShape{
		connections: connections, batch: batch, partitions: partitions, consumers: consumers, backlog: backlog,
		group: groupPilot, ask: ask,
	}
}
