package pg

import (
	"fmt"
	"syscall"
	"time"
)

// tcpUserTimeout is TCP_USER_TIMEOUT of linux/tcp.h, which package syscall does not name.
const tcpUserTimeout = 0x12

// limitUnacknowledged has the kernel give a connection up when what was sent stays unacknowledged for that long.
func limitUnacknowledged(raw syscall.RawConn, limit time.Duration) error {
	var failure error
	err := raw.Control(func(fd uintptr) {
		failure = syscall.SetsockoptInt(int(fd), syscall.IPPROTO_TCP, tcpUserTimeout, int(limit.Milliseconds()))
	})
	if err == nil {
		err = failure
	}
	if err != nil {
		return fmt.Errorf("set tcp user timeout: %w", err)
	}
	return nil
}
