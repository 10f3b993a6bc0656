package client

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
)

// Error is a broker's refusal: an answer outside 2xx.
type Error struct {
	Method string
	URL    string
	Status int
	// Message is the body's "error" where there is one, else the body's text.
	Message string
	// Code is the body's "code"; most answers have none.
	Code string
}

func (e *Error) Error() string {
	return e.Method + " " + e.URL + ": " + e.reason()
}

// reason leaves the call out.
func (e *Error) reason() string {
	text := fmt.Sprintf("%d %s", e.Status, http.StatusText(e.Status))
	if e.Message != "" {
		text += ": " + e.Message
	}
	if e.Code != "" {
		text += " (" + e.Code + ")"
	}
	return text
}

// Attempt is one try of a call that failed everywhere.
type Attempt struct {
	URL string
	Err error
}

// UnreachableError says that no broker could serve a call: each either did not answer or answered with a server error.
type UnreachableError struct {
	// Tried holds the last failure of each broker, in the order of the attempts.
	Tried []Attempt
}

func (e *UnreachableError) Error() string {
	parts := make([]string, len(e.Tried))
	for i, a := range e.Tried {
		reason := a.Err.Error()
		var refused *Error
		if errors.As(a.Err, &refused) {
			reason = refused.reason()
		}
		parts[i] = fmt.Sprintf("%s (%s)", a.URL, reason)
	}
	return "no broker could serve the call; tried " + strings.Join(parts, ", ")
}

// Unwrap gives the failures to errors.Is and errors.As.
func (e *UnreachableError) Unwrap() []error {
	errs := make([]error, len(e.Tried))
	for i, a := range e.Tried {
		errs[i] = a.Err
	}
	return errs
}

// note keeps the latest failure of each broker.
func (e *UnreachableError) note(url string, err error) {
	for i := range e.Tried {
		if e.Tried[i].URL == url {
			e.Tried[i].Err = err
			return
		}
	}
	e.Tried = append(e.Tried, Attempt{URL: url, Err: err})
}

// LostAnswerError says that a call which must not be repeated may have taken effect: its answer never came.
type LostAnswerError struct {
	URL string
	Err error
}

func (e *LostAnswerError) Error() string {
	return fmt.Sprintf("the answer of %s was lost, the call may have taken effect: %v", e.URL, e.Err)
}

// Unwrap is the transport's error.
func (e *LostAnswerError) Unwrap() error { return e.Err }

// InvalidPayloadError says that an item's payload is not JSON; nothing was sent.
type InvalidPayloadError struct {
	Index int
}

func (e *InvalidPayloadError) Error() string {
	return fmt.Sprintf("payload of item %d is not valid JSON", e.Index)
}
