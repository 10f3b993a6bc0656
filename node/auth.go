package node

import (
	"net"

	"go.uber.org/zap"

	"waggle/api/auth"
)

// startAuth makes what decides about requests and keeps its keys fresh; nil without tokens, and then it says so, once, if
// others than this machine can reach the listener.
func (n *Node) startAuth() *auth.Verifier {
	if !n.config.JWTEnabled {
		if !isLoopback(n.listener.Addr()) {
			n.logger.Warn("authentication is off: whoever reaches this address may do everything; --jwt-enabled turns it on", zap.String("code", "WG0041"),
				zap.Stringer("http", n.listener.Addr()))
		}
		return nil
	}
	verifier := auth.New(n.config.JWT, n.logger)
	for _, warning := range verifier.Warnings() {
		n.logger.Warn("authentication is not set up well", zap.String("code", "WG0042"), zap.String("cause", warning))
	}
	keys := n.parts.start("token keys", verifier.Run)
	n.parts.undo("token keys", keys.stop)
	return verifier
}

func isLoopback(address net.Addr) bool {
	tcp, ok := address.(*net.TCPAddr)
	return ok && tcp.IP.IsLoopback()
}
