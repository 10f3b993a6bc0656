package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"regexp"
	"strings"

	"waggle/codes"
)

// The exit codes of every command.
const (
	ExitDone     = 0
	ExitFailed   = 1
	ExitUsage    = 2
	ExitGate     = 3
	ExitRefused  = 4
	ExitDatabase = 5
	ExitAddress  = 6
)

// ExitError chooses the exit code. A nil Err prints nothing: the command has said it all.
type ExitError struct {
	Code int
	Err  error
}

// Fail makes an error that ends the process with code.
func Fail(code int, err error) error { return &ExitError{Code: code, Err: err} }

func (e *ExitError) Error() string {
	if e.Err == nil {
		return fmt.Sprintf("exit code %d", e.Code)
	}
	return e.Err.Error()
}

// Unwrap is the reason.
func (e *ExitError) Unwrap() error { return e.Err }

var operatorCode = regexp.MustCompile(`\bWG\d{4}\b`)

// report prints err in one line and returns the exit code for it.
func report(w io.Writer, err error) int {
	if err == nil {
		return ExitDone
	}
	code := ExitFailed
	var exit *ExitError
	if errors.As(err, &exit) {
		code, err = exit.Code, exit.Err
	}
	switch {
	case err == nil:
	case errors.Is(err, context.Canceled):
		fmt.Fprintln(w, "waggle: interrupted")
	default:
		text := strings.ReplaceAll(err.Error(), "\n", "; ")
		if code, found := codes.Find(operatorCode.FindString(text)); found {
			text += "; `waggle explain " + code.ID + "` says more"
		}
		fmt.Fprintln(w, "waggle: "+text)
	}
	return code
}
