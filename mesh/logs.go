package mesh

import (
	"bytes"
	"log"

	"go.uber.org/zap"
)

// libraryLog receives the lines that the library writes. They go to our log at debug level; those that the library
// has no callback for are counted by how they begin. What follows the beginning may come from a stranger's packet, so
// nothing is searched for inside it.
type libraryLog struct {
	log           *zap.Logger
	meters        *meters
	undecryptable func()
}

// logger is what the library is given.
func (l *libraryLog) logger() *log.Logger { return log.New(l, "", 0) }

var (
	wrongLabelLines = [][]byte{
		[]byte("discarding packet with unacceptable label"),
		[]byte("discarding stream with unacceptable label"),
		[]byte("failed to receive and remove the stream label header"),
		[]byte("cannot decode label"),
		[]byte("label header cannot be empty"),
	}
	undecryptableLines = [][]byte{
		[]byte("Decrypt packet failed"),
		[]byte("failed to receive: no installed keys could decrypt"),
		[]byte("failed to receive: encryption is configured but remote state is not encrypted"),
		[]byte("failed to receive: remote state is encrypted"),
		[]byte("failed to receive: unsupported encryption version"),
		[]byte("failed to receive: payload is too small to decrypt"),
	}
	droppedLine = []byte("handler queue full, dropping message")
)

// Write takes one line.
func (l *libraryLog) Write(line []byte) (int, error) {
	text := bytes.TrimRight(line, "\n")
	if end := bytes.IndexByte(text, ']'); len(text) > 0 && text[0] == '[' && end > 0 {
		text = text[end+1:]
	}
	text = bytes.TrimPrefix(bytes.TrimLeft(text, " "), []byte("memberlist: "))
	switch {
	case beginsWith(text, wrongLabelLines):
		l.meters.wrongLabel.Inc()
	case beginsWith(text, undecryptableLines):
		l.meters.undecryptable.Inc()
		l.undecryptable()
	case bytes.HasPrefix(text, droppedLine):
		l.meters.drop(dropLibrary)
	}
	if entry := l.log.Check(zap.DebugLevel, "memberlist"); entry != nil {
		entry.Write(zap.ByteString("line", text))
	}
	return len(line), nil
}

func beginsWith(text []byte, beginnings [][]byte) bool {
	for _, beginning := range beginnings {
		if bytes.HasPrefix(text, beginning) {
			return true
		}
	}
	return false
}

// undecryptableReply says whether a join failed because the answer could not be decrypted. The library has no type
// for it.
func undecryptableReply(err error) bool {
	return bytes.Contains([]byte(err.Error()), []byte("no installed keys could decrypt"))
}
