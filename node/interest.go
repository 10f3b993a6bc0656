package node

import "github.com/google/uuid"

// interests is what the mesh asks the data plane about the wakes that it wants. The mesh asks nothing before the data
// plane has said that it is interested in something.
type interests Node

// Each implements mesh.Interests.
func (i *interests) Each(yield func(tenant uuid.UUID, queue string)) { i.broker.EachInterest(yield) }

// Announced implements mesh.Interests.
func (i *interests) Announced() { i.broker.InterestAnnounced() }
