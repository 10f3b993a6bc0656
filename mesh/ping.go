package mesh

import (
	"errors"
	"fmt"
	"net"
	"time"

	"github.com/hashicorp/memberlist"
)

// ErrNoEcho says that a peer did not answer a ping in time.
var ErrNoEcho = errors.New("no answer")

// Ping measures the time to a peer and back, by a packet of the library that is encrypted like every other. It waits
// for half a second at most; the error is ErrNoEcho then. It works for peers of every frame version.
func (m *Mesh) Ping(peer Member) (time.Duration, error) {
	address, err := net.ResolveUDPAddr("udp", peer.Address)
	if err != nil {
		return 0, fmt.Errorf("ping %s: %w", peer.Name, err)
	}
	// The library's own figure begins after the packet has been sent: an answer may have come by then.
	began := time.Now()
	if _, err = m.list.Ping(nodeName(peer.Name, peer.StartID), address); err != nil {
		if _, silent := errors.AsType[memberlist.NoPingResponseError](err); silent {
			err = ErrNoEcho
		}
		return 0, fmt.Errorf("ping %s: %w", peer.Name, err)
	}
	return time.Since(began), nil
}
