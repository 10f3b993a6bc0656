//go:build race

package mesh_test

import (
	"runtime"
	"time"
)

// manyFrames is fewer under the race detector, which is slow.
const manyFrames = 100_000

// manyBrokers is smaller under the race detector, which is slow.
const manyBrokers = 25

// So are the meshes whose frames are counted, and the time for which they are.
const (
	busyBrokers = 8
	busyFor     = 200 * time.Millisecond
	busyRounds  = 200
)

// costlyBrokers is smaller still, for tests that take a minute of computing without the detector.
const costlyBrokers = 15

// Under Go 1.26 the timers of a synctest bubble share one context of the race detector. Two threads of a bubble that
// run timers at the same moment corrupt it, and the test binary dies inside the detector about once in sixty runs.
// On one processor they cannot. What the detector finds does not depend on how many there are.
func init() { runtime.GOMAXPROCS(1) }
