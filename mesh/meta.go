package mesh

import (
	"encoding/binary"
	"fmt"

	"github.com/google/uuid"
)

// Limits of what node meta carries; the library panics beyond 512 bytes in all.
const (
	buildLimit = 64
	httpLimit  = 128
)

const (
	metaVersion  = 1
	metaFixed    = 28
	metaDraining = 1 << 0
	metaLeader   = 1 << 1
)

// SchemaRange is what schema a build works with: it runs on Needs or newer and contains the steps up to Knows.
type SchemaRange struct {
	Knows uint32
	Needs uint32
}

// Meta is what a broker tells the others about itself through the gossip. Its layout is
//
//	offset  bytes
//	0       1      layout version
//	1       16     start id
//	17      1      lowest frame version read
//	18      1      highest frame version read
//	19      4      schema: knows
//	23      4      schema: needs
//	27      1      flags: 1 draining, 2 leader
//	28      1+n    build
//	        1+n    HTTP address
//
// big endian. Later layouts only append; a reader takes the prefix that it knows.
type Meta struct {
	StartID  uuid.UUID
	Frames   FrameRange
	Schema   SchemaRange
	Draining bool
	Leader   bool
	Build    string
	HTTP     string
}

func encodeMeta(m Meta) []byte {
	data := make([]byte, metaFixed, metaFixed+2+len(m.Build)+len(m.HTTP))
	data[0] = metaVersion
	copy(data[1:], m.StartID[:])
	data[17], data[18] = m.Frames.Min, m.Frames.Max
	binary.BigEndian.PutUint32(data[19:], m.Schema.Knows)
	binary.BigEndian.PutUint32(data[23:], m.Schema.Needs)
	if m.Draining {
		data[27] |= metaDraining
	}
	if m.Leader {
		data[27] |= metaLeader
	}
	for _, text := range []string{m.Build, m.HTTP} {
		data = append(data, byte(len(text)))
		data = append(data, text...)
	}
	return data
}

// decodeMeta reads the prefix of a meta that this build knows. A peer whose meta it cannot read is taken to speak
// frame version 1 and nothing else.
func decodeMeta(data []byte) (Meta, error) {
	unreadable := Meta{Frames: v1Only}
	if len(data) < metaFixed || data[0] < metaVersion {
		return unreadable, fmt.Errorf("read node meta: %d bytes of unknown layout", len(data))
	}
	m := Meta{
		Frames:   FrameRange{Min: data[17], Max: data[18]},
		Schema:   SchemaRange{Knows: binary.BigEndian.Uint32(data[19:]), Needs: binary.BigEndian.Uint32(data[23:])},
		Draining: data[27]&metaDraining != 0,
		Leader:   data[27]&metaLeader != 0,
	}
	copy(m.StartID[:], data[1:])
	if m.Frames.Min == 0 || m.Frames.Min > m.Frames.Max {
		return unreadable, fmt.Errorf("read node meta: frame range %d..%d", m.Frames.Min, m.Frames.Max)
	}
	rest := data[metaFixed:]
	for _, text := range []struct {
		into  *string
		limit int
	}{{&m.Build, buildLimit}, {&m.HTTP, httpLimit}} {
		if len(rest) == 0 || int(rest[0]) > len(rest)-1 || int(rest[0]) > text.limit {
			return unreadable, fmt.Errorf("read node meta: text of %d bytes does not fit", len(rest))
		}
		*text.into = string(rest[1 : 1+rest[0]])
		rest = rest[1+rest[0]:]
	}
	return m, nil
}
