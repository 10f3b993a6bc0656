package mesh

// EncodeFrame writes a frame as a sender would.
func EncodeFrame(f *Frame) []byte { return newEncoder().Encode(f) }

// FirstNumber is the number before the first of a stream.
func FirstNumber(opened uint32) Number { return firstNumber(opened) }

// DestinationMark is how a frame names the start that it is for.
var DestinationMark = destinationMark

// SeenNumbers is how far back a receiver knows which numbers have come.
const SeenNumbers = seenNumbers
