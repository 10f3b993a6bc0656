package mesh

// Frame versions this build reads and writes.
const (
	FrameMin = 1
	FrameMax = 2
)

// FrameRange is a range of frame versions, both ends included.
type FrameRange struct {
	Min uint8
	Max uint8
}

// v1Only is what is assumed of a peer whose meta cannot be read.
var v1Only = FrameRange{Min: 1, Max: 1}

// VersionFor is the frame version to send to a peer that reads theirs when we write ours: the highest that both know.
// It is false when they have none in common; then nothing is sent.
func VersionFor(ours, theirs FrameRange) (uint8, bool) {
	version := min(ours.Max, theirs.Max)
	if version < max(ours.Min, theirs.Min) || version == 0 {
		return 0, false
	}
	return version, true
}
