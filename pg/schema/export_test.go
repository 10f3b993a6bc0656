package schema

import "time"

// GatePatience bounds the tries for the gate's lock.
func (o *Options) GatePatience(d time.Duration) { o.gatePatience = d }
