package broker

import (
	"errors"
	"fmt"
	"strings"
)

// ErrVersionConflict says that a configure named a version of the options which is not the stored one.
var ErrVersionConflict = errors.New("the options have another version than ifVersion says")

// OptionNotKnownError refuses options that a live broker does not know: it would do something else with the data.
type OptionNotKnownError struct {
	Options []string
	// Brokers are the names and versions of those that do not.
	Brokers []string
}

func (e *OptionNotKnownError) Error() string {
	return fmt.Sprintf("%s is not known to every live broker: upgrade or stop %s, then configure again",
		strings.Join(e.Options, ", "), strings.Join(e.Brokers, ", "))
}

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
