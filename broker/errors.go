package broker

import (
	"errors"
	"strings"
)

// ErrVersionConflict says that a configure named a version of the options which is not the stored one.
var ErrVersionConflict = errors.New("the options have another version than ifVersion says")

// InvalidOptionError refuses the options of a configure.
type InvalidOptionError struct {
	// Invalid holds the names of the options that cannot be taken.
	Invalid []string
	// Reason says in words what is wrong with them.
	Reason string
}

func (e *InvalidOptionError) Error() string {
	if e.Reason == "" {
		return "invalid options: " + strings.Join(e.Invalid, ", ")
	}
	return e.Reason
}

// unavailableError marks a failure to get a connection to the database.
type unavailableError struct{ cause error }

// Unavailable wraps an error that means: no connection to the database could be had. The HTTP side tells it from
// other failures by its method of the same name.
func Unavailable(cause error) error { return &unavailableError{cause: cause} }

func (e *unavailableError) Error() string { return "no database connection: " + e.cause.Error() }

func (e *unavailableError) Unwrap() error { return e.cause }

// Unavailable tells that the failure is of the kind.
func (e *unavailableError) Unavailable() bool { return true }
