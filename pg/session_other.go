//go:build !linux

package pg

import (
	"syscall"
	"time"
)

// limitUnacknowledged does nothing where the kernel has no such option: keepalives and the trust window remain.
func limitUnacknowledged(syscall.RawConn, time.Duration) error { return nil }
