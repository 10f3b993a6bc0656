package node

import (
	"errors"
	"fmt"
)

// DatabaseError is a database that cannot be reached, refuses us, or is unfit to carry waggle.
type DatabaseError struct{ Cause error }

func (e *DatabaseError) Error() string { return e.Cause.Error() }

// Unwrap is the reason.
func (e *DatabaseError) Unwrap() error { return e.Cause }

// AddressError is an address that somebody else listens on.
type AddressError struct {
	Flag    string
	Address string
	Cause   error
}

func (e *AddressError) Error() string {
	return fmt.Sprintf("--%s %s: %v; stop what listens there or choose another address", e.Flag, e.Address, e.Cause)
}

// Unwrap is the reason.
func (e *AddressError) Unwrap() error { return e.Cause }

// errStopped is the cause of a context that ends because the node is told to stop.
var errStopped = errors.New("stopped")
