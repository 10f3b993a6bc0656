//go:build !race

package mesh_test

import "time"

const (
	// manyBrokers is how large the largest mesh of the tests is.
	manyBrokers = 50
	// costlyBrokers is how many there are in tests that take a minute of computing.
	costlyBrokers = 50
	// manyFrames is what is sent to prove that none of it is taken for a loss.
	manyFrames = 1_000_000
)

// The meshes whose frames are counted, and for how long they are.
const (
	busyBrokers = 20
	busyFor     = time.Second
	busyRounds  = 1000
)
