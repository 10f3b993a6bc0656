package schema

// Release is what one release of waggle says of itself to databases and to other brokers.
type Release struct {
	Build
	// FrameMin and FrameMax are the versions of mesh frames that it reads and writes.
	FrameMin, FrameMax uint8
}

// Releases lists every release, the oldest first; the last one is this build. The upgrade guide prints its grids from it.
var Releases = []Release{
	{Build: Build{Version: "0.1.0", Needs: 9, Knows: 9, RecordKnows: 1}, FrameMin: 1, FrameMax: 2},
	{Build: ThisBuild("0.2.0"), FrameMin: 1, FrameMax: 2},
}
