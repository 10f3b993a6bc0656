package api

import (
	"waggle/admin"
	"waggle/broker"
)

// What stands behind the ports in a real broker.
var (
	_ Broker = (*broker.Broker)(nil)
	_ Reads  = (*admin.Reader)(nil)
)
